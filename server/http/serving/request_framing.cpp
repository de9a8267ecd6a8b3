#include "server/http/serving/request_framing.h"

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/field.hpp>

#include "server/web/request_target.h"

namespace pulsegate {

namespace http = boost::beast::http;

namespace {

using Header = http::request_header<http::fields>;

constexpr unsigned http_1_1 = 11;

std::string_view only(const Header& header, http::field field) {
    const auto value = header[field];
    return header.count(field) == 1 ? std::string_view(value.data(), value.size()) : "";
}

}  // namespace

std::string_view framing_fault(const Header& header) {
    if (const char* const fault = fault_of_host(header); *fault != '\0') return fault;
    if (header.count(http::field::transfer_encoding) == 0) return "";
    // If the field names any other coding, the end of the body is unknown.
    const auto coding = only(header, http::field::transfer_encoding);
    if (header.version() < http_1_1 ||
        !boost::beast::iequals({coding.data(), coding.size()}, "chunked"))
        return "the only Transfer-Encoding that is understood is chunked, of HTTP/1.1";
    return "";
}

bool expects_continue(const Header& header) {
    return header.version() >= http_1_1 &&
           boost::beast::iequals(header[http::field::expect], "100-continue");
}

}  // namespace pulsegate
