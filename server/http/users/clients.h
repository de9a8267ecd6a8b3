#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

// `/api/v1/clients`: clients that are connected, or away with a session.

/// `GET`: a list, see client_list.h; `?user=`: all of a user; `?user=&client=`: one, with its
/// filters.
boost::asio::awaitable<ApiReply> show_clients(const ApiContext& api, const ApiRequest& request);

/// `DELETE ?user=`, `?user=&client=`: disconnects them; with `&sessions=end` it ends their sessions
/// as well.
boost::asio::awaitable<ApiReply> evict_clients(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
