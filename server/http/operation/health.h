#pragma once

#include <string>

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /healthz`: whether every event loop answers.
boost::asio::awaitable<ApiReply> show_health(const ApiContext& api, const ApiRequest& request);

/// The reason why the gateway is not ready; "" if it is.
boost::asio::awaitable<std::string> why_not_ready(const ApiContext& api);

/// `GET /readyz`: whether the gateway can do everything. Without its disk it is not ready, though
/// it serves what needs no disk.
boost::asio::awaitable<ApiReply> show_readiness(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
