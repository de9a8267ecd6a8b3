#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <string_view>

namespace pulsegate {

/// What makes a request's end or host doubtful: a proxy before the gateway may have understood the
/// header in another way (RFC 9112, sections 3.2 and 6.1). "": nothing.
std::string_view framing_fault(
    const boost::beast::http::request_header<boost::beast::http::fields>& header);

/// Does the client wait for a word before it sends the body (RFC 9110, section 10.1.1)?
bool expects_continue(const boost::beast::http::request_header<boost::beast::http::fields>& header);

}  // namespace pulsegate
