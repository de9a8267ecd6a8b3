#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /api/v1/status`: what the gateway is, how it does, and what it has done since the start.
boost::asio::awaitable<ApiReply> show_status(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
