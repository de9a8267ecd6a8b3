#pragma once

#include <boost/beast/http/status.hpp>
#include <string_view>

#include "server/http/serving/api_message.h"

namespace pulsegate {

/// Does the request change anything, or try to?
bool is_change(const ApiRequest& request);

/// Who has asked for what, and with which success, for the log: of each change, but never its body,
/// and of each trace.
void audit(const ApiRequest& request, boost::beast::http::status status);

/// The same of a change that was refused before anything was done. Anybody who reaches the
/// listener can provoke such lines, so their number is limited.
void audit_refused(const ApiRequest& request, boost::beast::http::status status);

}  // namespace pulsegate
