#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

// /api/v1/users/{user}/revoke: clients of this user must log in again, with a token that was issued
// since.
boost::asio::awaitable<ApiReply> revoke_logins(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
