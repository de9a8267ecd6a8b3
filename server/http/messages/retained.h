#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /api/v1/retained?filter=&after=&limit=`
boost::asio::awaitable<ApiReply> show_retained(const ApiContext& api, const ApiRequest& request);

/// `DELETE /api/v1/retained?filter=&user=`. Each shard has all retained messages, and deletes them
/// page by page.
boost::asio::awaitable<ApiReply> erase_retained(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
