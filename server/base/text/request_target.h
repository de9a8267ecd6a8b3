#pragma once

#include <boost/beast/http/field.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>

#include "server/base/text/web_origin.h"

namespace pulsegate {

/// The fault of an HTTP request's Host field, without which it is doubtful whom the request is for
/// (RFC 9112, section 3.2). "" if there is none.
inline const char* fault_of_host(
    const boost::beast::http::request_header<boost::beast::http::fields>& header) {
    constexpr auto field = boost::beast::http::field::host;
    constexpr unsigned http_1_1 = 11;
    const auto fields = header.count(field);
    if (fields > 1) return "there is more than one Host field";
    if (fields == 0) return header.version() < http_1_1 ? "" : "the Host field is missing";
    const auto host = header[field];
    if (!is_authority({host.data(), host.size()}))
        return "the Host field is not a host with an optional port";
    return "";
}

}  // namespace pulsegate
