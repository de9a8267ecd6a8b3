#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /`, `GET /reference` and `GET /dashboard/{file}`: the dashboard and the reference of the
/// API. The pages ask the API for all their data, and need no token themselves.
boost::asio::awaitable<ApiReply> show_dashboard(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
