#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /api/v1/users/{user}/history`: the latest events of a user, newest first, even of a user
/// that was never logged in.
boost::asio::awaitable<ApiReply> show_history(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
