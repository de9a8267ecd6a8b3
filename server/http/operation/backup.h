#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `POST /api/v1/backup` with `{"file":…,"overwrite":false}`: backs up the store, and answers at
/// the end, which may take minutes.
boost::asio::awaitable<ApiReply> back_up(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
