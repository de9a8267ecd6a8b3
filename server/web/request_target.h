#pragma once

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <optional>
#include <string_view>

#include "server/web/web_origin.h"

namespace pulsegate {

/// The target of an HTTP request. The texts are those of its header.
struct RequestTarget {
    std::string_view host{};  ///< with the port; "": the request does not name it
    std::string_view path{};
    std::string_view encoded_query{};  ///< without the '?'
};

/// The part after the scheme, if the target is a whole URL.
inline std::optional<std::string_view> without_scheme(std::string_view target) {
    for (const std::string_view scheme : {"http://", "https://"})
        if (boost::beast::iequals(target.substr(0, scheme.size()), scheme))
            return target.substr(scheme.size());
    return std::nullopt;
}

/// The target may be a path, or a whole URL, as for proxies. Then the URL names the host, and the
/// Host field does not count (RFC 9112, section 3.2.2).
inline RequestTarget request_target(
    const boost::beast::http::request_header<boost::beast::http::fields>& header) {
    const auto field = header[boost::beast::http::field::host];
    std::string_view target(header.target().data(), header.target().size());
    RequestTarget found{.host = {field.data(), field.size()}};
    const auto url = without_scheme(target);
    if (url) {
        found.host = url->substr(0, url->find_first_of("/?"));
        target = url->substr(found.host.size());
    }
    found.path = target.substr(0, target.find('?'));
    found.encoded_query = target.substr(std::min(found.path.size() + 1, target.size()));
    if (url && found.path.empty()) found.path = "/";
    return found;
}

/// The reason why the host of an HTTP request is doubtful (RFC 9112, section 3.2); "" if it is not.
inline const char* fault_of_host(
    const boost::beast::http::request_header<boost::beast::http::fields>& header) {
    constexpr auto field = boost::beast::http::field::host;
    constexpr unsigned http_1_1 = 11;
    const auto fields = header.count(field);
    if (fields > 1) return "there is more than one Host field";
    if (fields == 0 && header.version() >= http_1_1) return "the Host field is missing";
    const auto host = header[field];
    if (fields == 1 && !is_authority({host.data(), host.size()}))
        return "the Host field is not a host with an optional port";
    if (without_scheme({header.target().data(), header.target().size()}) &&
        !is_authority(request_target(header).host))
        return "the URL does not name a host with an optional port";
    return "";
}

}  // namespace pulsegate
