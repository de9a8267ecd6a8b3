#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <string_view>

namespace pulsegate {

/// What of a request's header makes it doubtful where the request ends or whom it is for: a proxy
/// before the gateway may have taken it otherwise (RFC 9112, sections 3.2 and 6.1). "": nothing.
std::string_view framing_fault(
    const boost::beast::http::request_header<boost::beast::http::fields>& header);

/// Does the client wait for a word before it sends the body (RFC 9110, section 10.1.1)?
bool expects_continue(const boost::beast::http::request_header<boost::beast::http::fields>& header);

}  // namespace pulsegate
