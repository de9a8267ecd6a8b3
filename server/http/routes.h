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

/// Stands for the parameters of a method that ignores them.
inline constexpr std::string_view any_parameters = "*";

/// A resource of the API, and what can be done with it. All of them are in the table in routes.cpp,
/// each with functions from the file of its subject: this is where a new one is entered.
struct Route {
    using Handler = boost::asio::awaitable<ApiReply> (*)(const ApiContext&, const ApiRequest&);
    struct Method {
        boost::beast::http::verb verb;  ///< GET has HEAD with it, which the server answers
        Handler answer;
        std::string_view parameters{};    ///< that it takes, separated by spaces
        std::optional<AdminRole> role{};  ///< nothing: read for GET, operate for all others
        bool takes_body = false;

        AdminRole role_needed() const {
            const bool is_read = verb == boost::beast::http::verb::get;
            return role.value_or(is_read ? AdminRole::read : AdminRole::operate);
        }
    };
    enum class Access : std::uint8_t { with_token, anybody };

    /// See path_pattern.h; what stands for a `{user}` in it is `ApiRequest::segment("user")`.
    std::string_view path;
    Method methods[3]{};
    Access access = Access::with_token;
    std::size_t most_body_bytes = 16 * 1024;
    bool is_probe = false;  ///< it tells whether the gateway is well

    /// Null if the resource does not have it.
    const Method* method(boost::beast::http::verb asked) const;
    /// As in the field Allow.
    std::string allowed() const;
};

/// All of them.
std::span<const Route> all_routes();

/// One that answers 404 if there is no such resource.
const Route& find_route(std::string_view path);

}  // namespace pulsegate
