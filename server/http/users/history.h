#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /api/v1/users/{user}/history`: what happened last to a user, also to one who was never let
/// in, the newest first.
boost::asio::awaitable<ApiReply> show_history(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
