#pragma once

#include <boost/asio/awaitable.hpp>

#include "server/http/questions/api_context.h"
#include "server/http/serving/api_message.h"

namespace pulsegate {

// The members of rooms, and the watchers of users, see session/rooms.h. Without a room in the path,
// the list is a user's watchers.

boost::asio::awaitable<ApiReply> list_rooms(const ApiContext& api, const ApiRequest& request);
boost::asio::awaitable<ApiReply> list_rooms_of_user(const ApiContext& api,
                                                    const ApiRequest& request);
boost::asio::awaitable<ApiReply> list_members(const ApiContext& api, const ApiRequest& request);
/// Adds and removes a list of members.
boost::asio::awaitable<ApiReply> change_members(const ApiContext& api, const ApiRequest& request);
boost::asio::awaitable<ApiReply> remove_all_members(const ApiContext& api,
                                                    const ApiRequest& request);
boost::asio::awaitable<ApiReply> add_member(const ApiContext& api, const ApiRequest& request);
boost::asio::awaitable<ApiReply> remove_member(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
