#pragma once

#include <boost/beast/http/verb.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/auth/admin_tokens.h"
#include "server/http/questions/api_context.h"

namespace pulsegate {

/// The parameters of a method that ignores them.
inline constexpr std::string_view any_parameters = "*";

/// A resource of the API and its methods. The table in routes.cpp lists all resources, with
/// functions from the file of each subject. Add a new resource there.
struct Route {
    using Handler = boost::asio::awaitable<ApiReply> (*)(const ApiContext&, const ApiRequest&);
    struct Method {
        boost::beast::http::verb verb;  ///< GET includes HEAD, which the server answers
        Handler answer;
        std::string_view parameters{};    ///< allowed ones, separated by spaces
        std::optional<AdminRole> role{};  ///< default: read for GET, operate for all others
        bool takes_body = false;

        /// The request with its parameters. Throws BadRequest if this method does not take them, or
        /// takes no body.
        ApiRequest parsed(const ApiRequest& request) const;
        AdminRole role_needed() const {
            const bool is_read = verb == boost::beast::http::verb::get;
            return role.value_or(is_read ? AdminRole::read : AdminRole::operate);
        }
    };
    enum class Access : std::uint8_t { with_token, anybody };

    /// See path_pattern.h; `ApiRequest::segment("user")` is the text that matches `{user}`.
    std::string_view path;
    Method methods[3]{};
    Access access = Access::with_token;
    std::size_t most_body_bytes = 16 * 1024;
    bool is_probe = false;  ///< it reports whether the gateway is well
    /// In a cluster, each node answers for itself. Otherwise the node that owns the data answers
    /// for all.
    bool is_of_node = false;

    /// Null if the resource does not have the method.
    const Method* method(boost::beast::http::verb asked) const;
    /// The methods, as in the field Allow.
    std::string allowed() const;
};

/// All resources.
std::span<const Route> all_routes();

/// The resource with this path; if there is none, a route that answers 404.
const Route& find_route(std::string_view path);

}  // namespace pulsegate
