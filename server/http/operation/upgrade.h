#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /api/v1/upgrade`: whether an upgrade is under way, and how the last one ended.
boost::asio::awaitable<ApiReply> show_upgrade(const ApiContext& api, const ApiRequest& request);

/// `POST /api/v1/upgrade`: makes another program take over, with all clients. Over the Unix socket
/// only.
boost::asio::awaitable<ApiReply> begin_upgrade(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
