#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /api/v1/users/{user}`: the presence of one user.
boost::asio::awaitable<ApiReply> show_user(const ApiContext& api, const ApiRequest& request);

/// `GET /api/v1/users?ids=a,b,c`: the presence of many users, or of all users, page by page:
/// `?state=online&after=&limit=`.
boost::asio::awaitable<ApiReply> show_users(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
