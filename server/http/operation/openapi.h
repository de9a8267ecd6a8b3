#pragma once

#include <string_view>

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// The text of openapi.json when the gateway was built.
extern const std::string_view openapi_document;

/// `GET /api/v1/openapi.json`
boost::asio::awaitable<ApiReply> show_openapi(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
