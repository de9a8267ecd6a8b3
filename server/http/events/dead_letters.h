#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// GET /api/v1/webhooks/dead
boost::asio::awaitable<ApiReply> list_dead_letters(const ApiContext& api,
                                                   const ApiRequest& request);
/// DELETE /api/v1/webhooks/dead
boost::asio::awaitable<ApiReply> drop_dead_letters(const ApiContext& api,
                                                   const ApiRequest& request);
/// POST /api/v1/webhooks/dead/replay
boost::asio::awaitable<ApiReply> replay_dead_letters(const ApiContext& api,
                                                     const ApiRequest& request);

}  // namespace pulsegate
