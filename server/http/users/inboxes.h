#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <optional>
#include <string>

#include "server/http/questions/api_context.h"

namespace pulsegate {

struct InboxDropped;

// `/api/v1/users/{user}/inbox`: messages that wait for the first device of a user, see
// session/delivery.

/// `GET`: how many messages there are; with `limit` or `after`, a page of them as well.
boost::asio::awaitable<ApiReply> show_inbox(const ApiContext& api, const ApiRequest& request);

/// `DELETE`: drops all these messages.
boost::asio::awaitable<ApiReply> empty_inbox(const ApiContext& api, const ApiRequest& request);

/// Returns when the shard has dropped them, perhaps before the store has. Nothing if the shard does
/// not answer in time.
boost::asio::awaitable<std::optional<InboxDropped>> drop_inbox(const ApiContext& api,
                                                               std::string user);

}  // namespace pulsegate
