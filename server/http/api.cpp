#include "server/http/api.h"

#include <openssl/crypto.h>

#include "server/base/text/web_origin.h"
#include "server/http/routes.h"
#include "server/http/serving/bad_request.h"

namespace pulsegate {

using boost::beast::http::status;

namespace {

ApiReply method_refused(const Route& route) {
    const std::string allowed = route.allowed();
    auto refusal =
        api_refusal(status::method_not_allowed, "method not allowed: use one of " + allowed);
    refusal.fields.emplace_back("Allow", allowed);
    return refusal;
}

ApiReply token_refused() {
    auto refusal = api_refusal(status::unauthorized,
                               "token missing or wrong: send Authorization: Bearer TOKEN");
    refusal.fields.emplace_back("WWW-Authenticate", "Bearer");
    return refusal;
}

boost::asio::awaitable<ApiReply> call(const Route::Method& method, const ApiContext& context,
                                      const ApiRequest& request) {
    std::string mistake;
    try {
        ApiRequest parsed = request;
        if (method.parameters != any_parameters)
            parsed.query = Query(request.encoded_query, method.parameters);
        co_return co_await method.answer(context, parsed);
    } catch (const BadRequest& wrong) {
        mistake = wrong.what();
    }
    co_return api_refusal(status::bad_request, mistake);
}

}  // namespace

bool Api::has_token(const ApiRequest& request) const {
    if (token_.empty()) return true;
    const std::string expected = "Bearer " + token_;
    const auto shown = request.authorization;
    return shown.size() == expected.size() &&
           CRYPTO_memcmp(shown.data(), expected.data(), expected.size()) == 0;
}

/// Without a token, everybody who reaches the API may use it, but not the scripts of web pages in
/// a browser on this machine, which come under the name of the page's host (DNS rebinding) or from
/// another origin. What is wrong with the request, or nothing.
std::string_view Api::objection_to_page(const ApiRequest& request) const {
    if (!token_.empty()) return {};
    if (!request.host.empty() && !is_loopback_host(request.host))
        return "without an admin-token-file only requests to localhost or a loopback address "
               "are answered: see the Host field";
    if (!origin_allowed(request.origin, request.host, {}))
        return "requests of web pages from elsewhere are not answered: see the Origin field";
    return {};
}

std::size_t Api::most_body_bytes(const ApiRequest& request) const {
    const Route usual{};
    return has_token(request) ? find_route(request.path).most_body_bytes : usual.most_body_bytes;
}

std::optional<ApiReply> Api::refusal(const ApiRequest& request) const {
    const Route& route = find_route(request.path);
    if (!route.method(request.method)) return method_refused(route);
    if (route.access == Route::Access::anybody) return std::nullopt;
    if (!has_token(request)) return token_refused();
    if (const auto objection = objection_to_page(request); !objection.empty())
        return api_refusal(status::forbidden, objection);
    return std::nullopt;
}

bool Api::is_probe(const ApiRequest& request) const { return find_route(request.path).is_probe; }

boost::asio::awaitable<ApiReply> Api::answer(const ApiRequest& request) const {
    if (auto refused = refusal(request)) co_return *std::move(refused);
    const Route& route = find_route(request.path);
    ApiRequest routed = request;
    routed.route = route.path;
    co_return co_await call(*route.method(request.method), context_, routed);
}

}  // namespace pulsegate
