#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

// `/api/v1/clients`: connected clients, and sessions of absent clients.

/// `GET`: a list, see client_list.h; `?user=`: all clients of a user; `?user=&client=`: one client,
/// with its filters.
boost::asio::awaitable<ApiReply> show_clients(const ApiContext& api, const ApiRequest& request);

/// `DELETE ?user=`, `?user=&client=`: disconnects them; with `&sessions=end` it ends their sessions
/// as well.
boost::asio::awaitable<ApiReply> evict_clients(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
