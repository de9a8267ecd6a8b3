#include "server/limits/client_limits.h"

#include <algorithm>
#include <utility>

namespace pulsegate {

namespace {

/// A broken connection counts as much as this many that end with DISCONNECT.
constexpr unsigned weight_of_break = 10;

}  // namespace

std::optional<Ban> ClientLimits::named(const Name& name) {
    return Ban{.user = name.first, .client = name.second, .left = std::nullopt};
}

std::optional<BanCause> ClientLimits::banned(std::string_view user, std::string_view client,
                                             Millis now) const {
    thread_.assert_here();
    if (bans_.empty()) return std::nullopt;
    auto cause = bans_.find({std::string(user), ""}, now);
    return cause ? cause : bans_.find({std::string(user), std::string(client)}, now);
}

bool ClientLimits::order_ban(std::string_view user, std::string_view client, Millis now,
                             Millis until, std::string reason) {
    thread_.assert_here();
    return bans_.order({std::string(user), std::string(client)}, now, until, std::move(reason));
}

bool ClientLimits::broke_off(std::string_view user, std::string_view client, Millis now) {
    return count_flap(user, client, weight_of_break, now);
}

bool ClientLimits::logged_out(std::string_view user, std::string_view client, Millis now) {
    return count_flap(user, client, 1, now);
}

bool ClientLimits::count_flap(std::string_view user, std::string_view client, unsigned weight,
                              Millis now) {
    thread_.assert_here();
    if (settings_.ban_flaps == 0) return false;
    const auto key = recent_key(user, client);
    if (flaps_.add(key, now, weight) < settings_.ban_flaps * weight_of_break) return false;
    flaps_.forget(key);
    bans_.add({std::string(user), std::string(client)}, now, now + settings_.ban_time);
    return true;
}

Millis ClientLimits::pause_before_takeover(std::string_view user, std::string_view client,
                                           Millis now) {
    thread_.assert_here();
    if (settings_.duel_takeovers == 0) return 0;
    const unsigned lately = takeovers_.add(recent_key(user, client), now);
    if (lately <= settings_.duel_takeovers) return 0;
    constexpr Millis shortest = 1000;
    constexpr unsigned most_doublings = 3;
    return shortest << std::min(lately - settings_.duel_takeovers - 1, most_doublings);
}

std::vector<Ban> ClientLimits::bans(Millis now) const {
    thread_.assert_here();
    return bans_.all(now, named);
}

BanPage ClientLimits::bans(const std::optional<std::string>& user, std::uint64_t after,
                           std::size_t most, Millis now) const {
    thread_.assert_here();
    return bans_.page(after, most, now, [&user](const Name& name) {
        return user && *user != name.first ? std::nullopt : named(name);
    });
}

bool ClientLimits::lift_ban(std::string_view user, std::string_view client, Millis now) {
    thread_.assert_here();
    return bans_.lift({std::string(user), std::string(client)}, now);
}

ClientLimits::Counts ClientLimits::counts(Millis now) {
    thread_.assert_here();
    return {.flaps = flaps_.pages(now), .takeovers = takeovers_.pages(now)};
}

void ClientLimits::adopt(const Counts& counts, Millis now) {
    thread_.assert_here();
    flaps_.adopt(counts.flaps, now);
    takeovers_.adopt(counts.takeovers, now);
}

bool ClientLimits::adopt(const Ban& ban, Millis now) {
    thread_.assert_here();
    return bans_.adopt({ban.user, ban.client}, now, ban);
}

}  // namespace pulsegate
