#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /api/v1/status`: the gateway's version, its state, and its counters since the start.
boost::asio::awaitable<ApiReply> show_status(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
