#include "server/http/operation/drain.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <optional>

#include "server/auth/json_claims.h"
#include "server/http/questions/shard_questions.h"

namespace pulsegate {

namespace {

namespace json = boost::json;
using Phase = DrainState::Phase;

/// Returns false if it is not a number of seconds up to a day.
bool set_span(const json::object& body, std::string_view member, Millis& span) {
    constexpr double most = 86'400;
    const auto* const value = body.if_contains(member);
    if (!value) return true;
    if (!value->is_number()) return false;
    const auto seconds = value->to_number<double>();
    if (!(seconds >= 0 && seconds <= most)) return false;
    span = static_cast<Millis>(seconds * 1000);
    return true;
}

/// Nothing if the body is wrong.
std::optional<DrainTerms> parse_terms(std::string_view body, DrainTerms terms) {
    if (body.empty()) return terms;
    const auto object = read_object(body);
    if (!object) return std::nullopt;
    const bool are_known = std::ranges::all_of(*object, [](const auto& member) {
        return member.key() == "over" || member.key() == "notice";
    });
    if (!are_known || !set_span(*object, "over", terms.over) ||
        !set_span(*object, "notice", terms.notice))
        return std::nullopt;
    return terms;
}

}  // namespace

std::string_view drain_name(Phase phase) {
    switch (phase) {
        case Phase::none: return "none";
        case Phase::notice: return "notice";
        case Phase::leaving: return "leaving";
        case Phase::stopping: return "stopping";
    }
    return "unknown";
}

ApiReply drain_reply(const DrainState& drain, std::size_t clients) {
    json::object state{{"phase", drain_name(drain.phase())}};
    if (const WallMillis until = drain.until(); until != 0) state["until"] = rfc3339(until);
    state["clients"] = clients;
    return api_reply(state);
}

ApiReply begin_drain_by(const DrainState& drain, const AdminHost& host, const ApiRequest& request) {
    const auto terms = parse_terms(request.body, drain.usual());
    if (!terms)
        return api_refusal(ApiError::bad_member,
                           "send no body, or {\"over\":30,\"notice\":5}: seconds, up to 86400");
    const auto under_way = [] {
        return api_refusal(ApiError::drain_under_way, "a drain is already under way");
    };
    if (!host.drain || drain.phase() != Phase::none) return under_way();
    // Refused, because the new process would not know of the drain.
    if (host.upgrades && host.upgrades->is_under_way())
        return api_refusal(ApiError::upgrade_under_way,
                           "an upgrade is under way: repeat the request when it has ended");
    if (!host.drain(*terms)) return under_way();
    auto reply = api_reply({{"notice", static_cast<double>(terms->notice) / 1000},
                            {"over", static_cast<double>(terms->over) / 1000}});
    reply.status = boost::beast::http::status::accepted;
    return reply;
}

boost::asio::awaitable<ApiReply> show_drain(const ApiContext& api, const ApiRequest&) {
    const auto leaving = co_await api.shards.ask_all([](ShardAdmin& shard) {
        const ShardStatus status = shard.status();
        return status.connected - std::min(status.connected, status.elsewhere);
    });
    std::size_t clients = 0;
    for (const auto& each : leaving) clients += each.value_or(0);
    co_return drain_reply(api.drain, clients);
}

boost::asio::awaitable<ApiReply> begin_drain(const ApiContext& api, const ApiRequest& request) {
    co_return begin_drain_by(api.drain, api.host, request);
}

}  // namespace pulsegate
