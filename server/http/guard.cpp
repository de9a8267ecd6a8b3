#include "server/http/guard.h"

#include <fmt/format.h>

#include <boost/beast/core/string.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "server/web/web_origin.h"

namespace pulsegate {

namespace {

ApiReply token_refused() {
    auto refusal = api_refusal(ApiError::bad_token,
                               "token missing or wrong: send Authorization: Bearer TOKEN");
    refusal.fields.emplace_back("WWW-Authenticate", "Bearer");
    return refusal;
}

ApiReply role_refused(const AdminToken& token, AdminRole needed) {
    return api_refusal(ApiError::role_needed,
                       fmt::format("this needs a token with the role {}; the token '{}' has {}",
                                   name_of(needed), token.name, name_of(token.role)),
                       {{"role", name_of(needed)}});
}

/// Nothing if the request comes from no web page, or from a page of the gateway itself.
std::optional<ApiReply> objection_to_page(const ApiRequest& request) {
    if (!request.host.empty() && !is_loopback_host(request.host))
        return api_refusal(ApiError::foreign_host,
                           "without admin tokens, the gateway answers only requests to localhost "
                           "or a loopback address: see the Host field. Set admin-token-file or "
                           "admin-tokens-file to allow other hosts");
    // A browser states no origin for images and frames of a page. A link to a page of ours is fine.
    const bool is_foreign = request.fetch_site == "cross-site" && request.fetch_dest != "document";
    if (is_foreign || !origin_allowed(request.origin, request.host, {}))
        return api_refusal(ApiError::foreign_origin,
                           "the gateway does not answer requests from web pages of other origins: "
                           "see the Origin and Sec-Fetch-Site fields");
    return std::nullopt;
}

}  // namespace

const AdminToken* ApiGuard::token_of(const ApiRequest& request) const {
    constexpr std::string_view scheme = "Bearer ";
    const auto begin = request.authorization.substr(0, scheme.size());
    if (!boost::beast::iequals(begin, scheme)) return nullptr;  // RFC 9110: in any case
    return tokens_.find(request.authorization.substr(scheme.size()));
}

std::string_view ApiGuard::name_shown(const ApiRequest& request) const {
    if (request.is_local) return "local";
    if (request.is_let_in) return request.token;
    const AdminToken* const token = token_of(request);
    return token ? std::string_view(token->name) : "";
}

std::optional<ApiReply> ApiGuard::refusal(const ApiRequest& request, AdminRole needed) const {
    if (request.is_local || request.is_let_in) return std::nullopt;
    if (tokens_.empty()) return objection_to_page(request);
    const AdminToken* const token = token_of(request);
    if (!token) return token_refused();
    if (token->role < needed) return role_refused(*token, needed);
    return std::nullopt;
}

ApiReply ApiGuard::guarded(ApiReply reply, const ApiRequest& request, AdminRole needed) const {
    if (!reply.stream) return reply;
    reply.stream = [this, request, needed,
                    next = std::move(reply.stream)]() -> boost::asio::awaitable<std::string> {
        std::string piece = co_await next();
        if (refusal(request, needed)) piece.clear();
        co_return piece;
    };
    return reply;
}

}  // namespace pulsegate
