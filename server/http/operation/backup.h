#pragma once

#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `POST /api/v1/backup` with `{"file":…,"overwrite":false}`: has the store backed up, and waits
/// for the end, for minutes if need be.
boost::asio::awaitable<ApiReply> back_up(const ApiContext& api, const ApiRequest& request);

}  // namespace pulsegate
