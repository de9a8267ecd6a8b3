#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `POST /api/v1/publish`: one message or a list, to topics or to inboxes. It answers when they are
/// safe for all their receivers, and says how many receivers there are.
boost::asio::awaitable<ApiReply> publish(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
