#include "server/http/api.h"

#include <optional>
#include <string>
#include <utility>

#include "server/http/audit.h"
#include "server/http/questions/request_counts.h"
#include "server/http/routes.h"
#include "server/http/serving/bad_request.h"

namespace pulsegate {

namespace {

ApiReply method_refused(const Route& route) {
    const std::string allowed = route.allowed();
    auto refusal =
        api_refusal(ApiError::method_not_allowed, "method not allowed: use one of " + allowed);
    refusal.fields.emplace_back("Allow", allowed);
    return refusal;
}

boost::asio::awaitable<ApiReply> call(const Route::Method& method, const ApiContext& context,
                                      const ApiRequest& request) {
    std::optional<BadRequest> mistake;
    try {
        const ApiRequest parsed = method.parsed(request);
        co_return co_await method.answer(context, parsed);
    } catch (const BadRequest& wrong) {
        mistake.emplace(wrong);
    }
    co_return api_refusal(mistake->error, mistake->sentence);
}

/// True for changes, and for reads that need the role of an operator.
bool is_audited(const ApiRequest& request, const Route& route) {
    const Route::Method* const method = route.method(request.method);
    return is_change(request) || (method && method->role_needed() == AdminRole::operate);
}

}  // namespace

std::size_t Api::most_body_bytes(const ApiRequest& request) const {
    const Route usual{};
    return judge(request) ? usual.most_body_bytes : find_route(request.path).most_body_bytes;
}

std::optional<ApiReply> Api::judge(const ApiRequest& request) const {
    const Route& route = find_route(request.path);
    const Route::Method* const method = route.method(request.method);
    if (!method) return method_refused(route);
    if (route.access == Route::Access::anybody) return std::nullopt;
    return guard_.refusal(request, method->role_needed());
}

std::optional<ApiReply> Api::refusal(const ApiRequest& request) const {
    auto refused = judge(request);
    if (!refused || !is_audited(request, find_route(request.path))) return refused;
    ApiRequest shown = request;
    shown.token = guard_.name_shown(request);
    audit_refused(shown, refused->status);
    return refused;
}

bool Api::is_probe(const ApiRequest& request) const { return find_route(request.path).is_probe; }

boost::asio::awaitable<ApiReply> Api::answer(const ApiRequest& request) const {
    if (auto refused = refusal(request)) co_return *std::move(refused);
    const Route& route = find_route(request.path);
    ApiRequest routed = request;
    routed.route = route.path;
    const std::string token(guard_.name_shown(request));  // the tokens may change meanwhile
    routed.token = token;
    const Route::Method& method = *route.method(request.method);
    ApiReply reply = co_await call(method, context_, routed);
    if (is_audited(routed, route)) audit(routed, reply.status);
    // Its token may have become invalid meanwhile. A change has been made, and its client must
    // know.
    if (!is_change(request))
        if (auto refused = judge(request)) co_return *std::move(refused);
    co_return guard_.guarded(std::move(reply), request, method.role_needed());
}

void Api::count(const ApiRequest& request, boost::beast::http::status status) const {
    const Route& route = find_route(request.path);
    const bool is_known = !route.path.empty();
    const boost::beast::string_view method = is_known && route.method(request.method)
                                                 ? to_string(request.method)
                                                 : boost::beast::string_view("other");
    context_.requests.count({.route = is_known ? route.path : "none",
                             .method = {method.data(), method.size()},
                             .status = static_cast<unsigned>(status)});
}

}  // namespace pulsegate
