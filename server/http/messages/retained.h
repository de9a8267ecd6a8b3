#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <optional>
#include <string>

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `GET /api/v1/retained?filter=&after=&limit=`
boost::asio::awaitable<ApiReply> show_retained(const ApiContext& api, const ApiRequest& request);

/// `DELETE /api/v1/retained?filter=&user=`. Each shard has all retained messages, and deletes them
/// page by page.
boost::asio::awaitable<ApiReply> erase_retained(const ApiContext& api, const ApiRequest& request);

/// Deletes all retained messages that the user has published. Nothing if a shard does not answer in
/// time.
boost::asio::awaitable<std::optional<std::size_t>> erase_retained_of(const ApiContext& api,
                                                                     std::string user);

}  // namespace pulsegate
