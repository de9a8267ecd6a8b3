#pragma once

#include "server/http/questions/api_context.h"
#include "server/http/serving/query.h"

namespace pulsegate {

/// True if a request for clients asks for pages of a list. Otherwise it names a user, or a user's
/// client.
bool asks_for_a_list(const Query& query);

/// A page of the clients that match the parameters `user`, `client` (the beginning of a client id),
/// `address`, `listener`, `state`, `since`.
boost::asio::awaitable<ApiReply> list_clients(const ApiContext& api, const Query& query);

}  // namespace pulsegate
