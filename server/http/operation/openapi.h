#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /api/v1/openapi.json`
boost::asio::awaitable<ApiReply> show_openapi(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
