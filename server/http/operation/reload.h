#pragma once

#include "server/http/questions/admin_host.h"
#include "server/http/questions/api_context.h"

namespace pulsegate {

/// `POST /api/v1/reload`: applies changed settings and files, as SIGHUP does, and tells what has
/// changed and what needs a restart.
boost::asio::awaitable<ApiReply> reload(const ApiContext& api, const ApiRequest& request);

/// The same, of a standby node. The arguments must outlive the answer.
boost::asio::awaitable<ApiReply> reload_by(boost::asio::io_context& io, const AskReload& reload);

}  // namespace pulsegate
