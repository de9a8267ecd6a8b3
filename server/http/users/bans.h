#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

// /api/v1/bans: bans, by the administrator or for bad behaviour.
boost::asio::awaitable<ApiReply> list_bans(const ApiContext& api, const ApiRequest& request);
boost::asio::awaitable<ApiReply> set_ban(const ApiContext& api, const ApiRequest& request);
boost::asio::awaitable<ApiReply> lift_ban(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
