#pragma once

#include <cstddef>
#include <string_view>

#include "server/http/questions/admin_host.h"
#include "server/http/questions/api_context.h"
#include "server/limits/drain.h"

namespace pulsegate {

std::string_view drain_name(DrainState::Phase phase);

/// The answers to the two requests below, for a node with so many clients.
ApiReply drain_reply(const DrainState& drain, std::size_t clients);
ApiReply begin_drain_by(const DrainState& drain, const AdminHost& host, const ApiRequest& request);

/// `GET /api/v1/drain`: whether the gateway asks its clients to leave, and how far that has got.
boost::asio::awaitable<ApiReply> show_drain(const ApiContext& api, const ApiRequest& request);

/// `POST /api/v1/drain`: asks all clients to leave, and stops. A body may have `over` and `notice`,
/// in seconds, instead of drain-time and drain-notice.
boost::asio::awaitable<ApiReply> begin_drain(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
