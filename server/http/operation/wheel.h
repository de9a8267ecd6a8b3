#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /api/v1/wheel`: the number of connections in each slot of the timing wheels.
boost::asio::awaitable<ApiReply> show_wheel(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
