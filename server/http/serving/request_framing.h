#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <string_view>

namespace pulsegate {

/// The reason why a request's end or host is doubtful: a proxy may have understood the header in
/// another way (RFC 9112, sections 3.2 and 6.1). "" if it is not.
std::string_view framing_fault(
    const boost::beast::http::request_header<boost::beast::http::fields>& header);

/// True if the client waits for "100 Continue" before it sends the body (RFC 9110, section 10.1.1).
bool expects_continue(const boost::beast::http::request_header<boost::beast::http::fields>& header);

}  // namespace pulsegate
