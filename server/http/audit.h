#pragma once

#include <boost/beast/http/status.hpp>
#include <string_view>

#include "server/http/serving/api_message.h"

namespace pulsegate {

/// True if the request changes something, or tries to.
bool is_change(const ApiRequest& request);

/// Logs a change or a trace: the client, the request without its body, and the result.
void audit(const ApiRequest& request, boost::beast::http::status status);

/// The same for a request that was refused at once. Anybody who reaches the listener can provoke
/// such lines, so their number is limited.
void audit_refused(const ApiRequest& request, boost::beast::http::status status);

}  // namespace pulsegate
