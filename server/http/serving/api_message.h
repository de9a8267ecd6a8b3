#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/verb.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/text/json_text.h"
#include "server/base/text/url.h"
#include "server/http/serving/api_error.h"
#include "server/http/serving/path_pattern.h"
#include "server/http/serving/query.h"
#include "server/limits/address.h"

namespace pulsegate {

/// An HTTP request, as the API needs it. The texts are valid until it is answered.
struct ApiRequest {
    boost::beast::http::verb method = boost::beast::http::verb::unknown;
    std::string_view path{};
    std::string_view route{};          ///< its path, see Route
    std::string_view encoded_query{};  ///< without the '?'
    Query query{};                     ///< the parameters that the route takes
    std::string_view body{};

    Address address{};         ///< address of the client
    std::string_view token{};  ///< the name of its token; "": missing or wrong
    std::string_view node{};   ///< the node that carries the request, if the client is at another
    bool is_let_in = false;    ///< that node has admitted the client

    // The header's fields; "" if a field is missing.
    std::string_view authorization{};
    std::string_view host{};
    std::string_view origin{};
    std::string_view fetch_site{};  ///< Sec-Fetch-Site: the site whose page made a browser ask
    std::string_view fetch_dest{};  ///< Sec-Fetch-Dest: the use of the answer
    std::string_view accept{};
    std::string_view last_event_id{};
    std::optional<std::string_view> idempotency_key{};  ///< nothing: the field is missing

    bool is_local = false;  ///< over the Unix socket: from the gateway's user or root

    /// The decoded segment of the path that matches `{name}` in the route; nothing if the route has
    /// no such segment, or if it is not UTF-8.
    std::optional<std::string> segment(std::string_view name) const {
        const auto encoded = path_segment(route, path, name);
        return encoded ? percent_decoded(*encoded) : std::nullopt;
    }
};

struct ApiReply {
    boost::beast::http::status status = boost::beast::http::status::ok;
    std::string body{};
    std::string content_type = "application/json";
    std::vector<std::pair<std::string, std::string>> fields{};  ///< further ones
    /// Returns the body piece by piece, instead of `body`, until it returns ""; then the connection
    /// ends. Empty: there are no pieces.
    std::function<boost::asio::awaitable<std::string>()> stream{};
};

inline ApiReply api_reply(const boost::json::object& body) { return {.body = json_text(body)}; }

/// The members `error` and `code` of an answer.
boost::json::object error_json(ApiError error, std::string_view sentence);

/// Has the error's status, and adds other members that help the reader.
ApiReply api_refusal(ApiError error, std::string_view sentence, boost::json::object more = {});

}  // namespace pulsegate
