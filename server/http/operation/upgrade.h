#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /api/v1/upgrade`: is an upgrade under way, and how has the last one ended?
boost::asio::awaitable<ApiReply> show_upgrade(const ApiContext& api, const ApiRequest& request);

/// `POST /api/v1/upgrade`: has another program take over, with all clients. By the Unix socket
/// only.
boost::asio::awaitable<ApiReply> begin_upgrade(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
