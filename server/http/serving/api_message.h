#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/verb.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/text/url.h"
#include "server/http/serving/path_pattern.h"
#include "server/http/serving/query.h"

namespace pulsegate {

/// What the API needs of an HTTP request. The texts are lent until it is answered.
struct ApiRequest {
    boost::beast::http::verb method = boost::beast::http::verb::unknown;
    std::string_view path{};
    std::string_view route{};          ///< its path, see Route
    std::string_view encoded_query{};  ///< without the '?'
    Query query{};                     ///< its parameters, those that the route takes
    std::string_view body{};

    // The header's fields; "" stands for one that is missing.
    std::string_view authorization{};
    std::string_view host{};
    std::string_view origin{};
    std::string_view accept{};
    std::string_view last_event_id{};

    /// What the path has for `{name}` in the route, decoded; nothing if the route has no such
    /// segment, or if it is not UTF-8.
    std::optional<std::string> segment(std::string_view name) const {
        const auto encoded = path_segment(route, path, name);
        return encoded ? percent_decoded(*encoded) : std::nullopt;
    }
};

struct ApiReply {
    boost::beast::http::status status = boost::beast::http::status::ok;
    std::string body{};
    const char* content_type = "application/json";
    std::vector<std::pair<std::string_view, std::string>> fields{};  ///< further ones
    /// What follows piece by piece, instead of the body, until it returns ""; the connection ends
    /// then. Empty: nothing.
    std::function<boost::asio::awaitable<std::string>()> stream{};
};

inline ApiReply api_reply(const boost::json::object& body) {
    return {.body = boost::json::serialize(body)};
}
inline ApiReply api_refusal(boost::beast::http::status why, std::string_view error) {
    return {.status = why, .body = boost::json::serialize(boost::json::object{{"error", error}})};
}

}  // namespace pulsegate
