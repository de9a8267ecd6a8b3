#pragma once

#include "server/http/api_context.h"

namespace pulsegate {

// /api/v1/users/{user}/revoke: whoever has logged in as this user must show anew who it is, by a
// token that was issued since.
boost::asio::awaitable<ApiReply> revoke_logins(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
