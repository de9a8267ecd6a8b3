#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `DELETE /api/v1/users/{user}`: disconnects a user, and deletes the user's data: sessions, inbox,
/// memberships, watchers, retained and delayed messages, presence and history. If it fails, it may
/// be repeated.
boost::asio::awaitable<ApiReply> erase_user(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
