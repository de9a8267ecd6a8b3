#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `DELETE /api/v1/users/{user}`: disconnects a user, and deletes what is kept of them: sessions,
/// inbox, memberships, watchers, retained and delayed messages, presence and history. It may be
/// repeated if it fails.
boost::asio::awaitable<ApiReply> erase_user(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
