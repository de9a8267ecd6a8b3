#pragma once

#include <string_view>

#include "server/http/questions/api_context.h"
#include "server/limits/drain.h"

namespace pulsegate {

std::string_view drain_name(DrainState::Phase phase);

/// `GET /api/v1/drain`: whether the gateway asks its clients to leave, and how far that has got.
boost::asio::awaitable<ApiReply> show_drain(const ApiContext& api, const ApiRequest& request);

/// `POST /api/v1/drain`: asks all clients to leave, and stops. A body may have `over` and `notice`,
/// in seconds, instead of drain-time and drain-notice.
boost::asio::awaitable<ApiReply> begin_drain(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
