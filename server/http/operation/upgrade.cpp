#include "server/http/operation/upgrade.h"

#include <boost/json/object.hpp>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "server/auth/json_claims.h"
#include "server/base/clock.h"
#include "server/http/questions/admin_host.h"
#include "server/limits/drain.h"

namespace pulsegate {

namespace {

namespace json = boost::json;
using End = UpgradeOutcome::End;

/// Nothing if the body is wrong.
std::optional<UpgradeOrder> parse_upgrade_order(std::string_view body) {
    UpgradeOrder order;
    if (body.empty()) return order;
    const auto object = read_object(body);
    if (!object) return std::nullopt;
    for (const auto& [name, value] : *object) {
        if (name == "program" && value.is_string() && value.get_string().starts_with('/'))
            order.program = value.get_string();
        else if (name == "dry_run" && value.is_bool())
            order.is_rehearsal = value.get_bool();
        else if (name == "longest_pause" && value.is_number() && value.to_number<double>() >= 0.1 &&
                 value.to_number<double>() <= 600)
            order.longest_pause =
                static_cast<Millis>(std::lround(value.to_number<double>() * 1000));
        else
            return std::nullopt;
    }
    return order;
}

std::string_view outcome_name(End end) {
    switch (end) {
        case End::completed: return "completed";
        case End::rehearsed: return "rehearsed";
        case End::failed: return "failed";
    }
    return "failed";
}

json::object upgrade_json(const UpgradeOutcome& outcome) {
    json::object left;
    for (const auto& [reason, clients] : outcome.left) left[reason] = clients;
    json::object last{{"outcome", outcome_name(outcome.end)},
                      {"at", rfc3339(outcome.when)},
                      {"from", outcome.from},
                      {"to", outcome.to},
                      {"moved", outcome.moved},
                      {"left", std::move(left)},
                      {"pause", static_cast<double>(outcome.pause) / 1000}};
    if (!outcome.why.empty()) last["why"] = outcome.why;
    return last;
}

}  // namespace

boost::asio::awaitable<ApiReply> show_upgrade(const ApiContext& api, const ApiRequest&) {
    const UpgradeState* const upgrades = api.host.upgrades;
    json::object state{{"under_way", upgrades && upgrades->is_under_way()}};
    if (const auto last = upgrades ? upgrades->last() : std::nullopt)
        state["last"] = upgrade_json(*last);
    co_return api_reply(state);
}

boost::asio::awaitable<ApiReply> begin_upgrade(const ApiContext& api, const ApiRequest& request) {
    if (!request.is_local || !api.host.upgrade)
        co_return api_refusal(
            ApiError::local_only,
            "an upgrade runs a program: it is possible only over the gateway's Unix socket");
    const auto order = parse_upgrade_order(request.body);
    if (!order)
        co_return api_refusal(
            ApiError::bad_member,
            "send no body, or {\"program\":\"/usr/bin/pulsegate\","
            "\"dry_run\":false,\"longest_pause\":1}: an absolute path, and 0.1 to "
            "600 seconds");
    if (api.drain.phase() != DrainState::Phase::none)
        co_return api_refusal(ApiError::drain_under_way, "the gateway is being drained");
    if (const auto why = api.host.upgrade(*order); !why.empty())
        co_return api_refusal(ApiError::cannot_upgrade, why);
    auto reply = api_reply({{"under_way", true}});
    reply.status = boost::beast::http::status::accepted;
    co_return reply;
}

}  // namespace pulsegate
