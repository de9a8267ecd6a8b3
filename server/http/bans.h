#pragma once

#include "server/http/api_context.h"

namespace pulsegate {

/// `GET /api/v1/bans`: who is banned, addresses and clients, and for how long.
boost::asio::awaitable<ApiReply> show_bans(const ApiContext& api, const ApiRequest& request);

/// `DELETE /api/v1/bans?address=` or `?user=&client=`
boost::asio::awaitable<ApiReply> lift_ban(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
