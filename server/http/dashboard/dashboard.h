#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /`, `GET /reference` and `GET /dashboard/{file}`: the dashboard and the reference of the
/// API, pages that ask the API for all that they show. The pages themselves need no token.
boost::asio::awaitable<ApiReply> show_dashboard(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
