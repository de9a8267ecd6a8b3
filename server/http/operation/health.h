#pragma once

#include <string>

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /healthz`: does every event loop answer?
boost::asio::awaitable<ApiReply> show_health(const ApiContext& api, const ApiRequest& request);

/// Why the gateway does not do all that it should; "": it does.
boost::asio::awaitable<std::string> why_not_ready(const ApiContext& api);

/// `GET /readyz`: does the gateway do all that it should? It may serve what needs no disk, and not
/// be ready.
boost::asio::awaitable<ApiReply> show_readiness(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
