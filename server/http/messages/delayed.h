#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "server/http/questions/api_context.h"
#include "server/session/requests/delayed_terms.h"

namespace pulsegate {

// `/api/v1/delayed`, messages that are published later. They need no shard: the store keeps them.

/// `POST`: accepts all messages of a request or none.
boost::asio::awaitable<ApiReply> add_delayed(const ApiContext& api, const ApiRequest& request);

/// `GET`: the waiting messages, page by page.
boost::asio::awaitable<ApiReply> list_delayed(const ApiContext& api, const ApiRequest& request);

/// `GET /api/v1/delayed/{id}`
boost::asio::awaitable<ApiReply> show_delayed(const ApiContext& api, const ApiRequest& request);

/// `DELETE /api/v1/delayed/{id}`, or `?user=&name=`, or `?user=` for all of theirs.
boost::asio::awaitable<ApiReply> cancel_delayed(const ApiContext& api, const ApiRequest& request);

/// Cancels delayed messages of clients that were disconnected just now; `which` has each user once.
/// False if the disk is in trouble.
boost::asio::awaitable<bool> cancel_of_clients(const ApiContext& api,
                                               std::vector<DelayedByClients> which);

/// Cancels all delayed messages in the user's name, including a backend's. Nothing if the disk is
/// in trouble or a shard does not answer in time.
boost::asio::awaitable<std::optional<std::size_t>> cancel_all_of(const ApiContext& api,
                                                                 std::string user);

}  // namespace pulsegate
