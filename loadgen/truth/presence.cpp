#include "loadgen/truth/presence.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "loadgen/truth/mixing.h"
#include "loadgen/truth/wire.h"

namespace pulsegate::load {

using namespace std::chrono_literals;

namespace {

/// Clocks of workers on several machines differ by less.
constexpr Duration clock_error = 5ms;

/// So late a watcher may be told of an offline after the client is back: a server under load sends
/// both, one behind the other.
constexpr Duration settling = 10s;

constexpr std::size_t liveness_size = 4 + 1 + 8;

}  // namespace

void put(const Liveness& fact, Buffer& out) {
    put(fact.client, out);
    put(static_cast<std::uint8_t>(fact.kind), out);
    put(static_cast<std::uint64_t>(fact.at.time_since_epoch().count()), out);
}

std::optional<Liveness> take_liveness(Bytes& in) {
    if (in.size() < liveness_size) return {};
    Liveness fact;
    fact.client = take<std::uint32_t>(in);
    const auto kind = take<std::uint8_t>(in);
    if (kind > static_cast<std::uint8_t>(Liveness::Kind::silent)) return {};
    fact.kind = static_cast<Liveness::Kind>(kind);
    fact.at = Time(Duration(take<std::uint64_t>(in)));
    return fact;
}

std::size_t Presence::PairHash::operator()(const Pair& pair) const {
    return mix(std::uint64_t{pair.observer} << 32 | pair.client);
}

Presence::Order Presence::observed(const Observation& seen) {
    auto& last = last_version_[{seen.observer, seen.client}];
    if (seen.version < last) return Order::out_of_order;
    if (seen.version == last) return Order::repeated;
    last = seen.version;

    Changes& changes = changes_[seen.client];
    const auto change = std::ranges::lower_bound(changes, seen.version, {}, &Change::version);
    if (change == changes.end() || change->version != seen.version) {
        changes.insert(change, {seen.version, seen.at, seen.online, seen.snapshot});
    } else if (seen.at < change->first || (change->snapshot && !seen.snapshot)) {
        change->first = std::min(change->first, seen.at);
        change->snapshot = change->snapshot && seen.snapshot;
    }
    return Order::news;
}

void Presence::happened(const Liveness& fact) { facts_[fact.client].push_back(fact); }

std::vector<Presence::Life> Presence::lives_of(std::uint32_t client) const {
    std::vector<Life> lives;
    const auto found = facts_.find(client);
    if (found == facts_.end()) return lives;
    auto facts = found->second;
    std::ranges::stable_sort(facts, {}, &Liveness::at);
    for (const Liveness& fact : facts) {
        const bool alive = !lives.empty() && lives.back().to == Time::max();
        if (fact.kind == Liveness::Kind::online) {
            if (!alive) lives.push_back({.from = fact.at});
        } else if (alive) {
            lives.back().to = fact.at;
            lives.back().silent_end = fact.kind == Liveness::Kind::silent;
        }
    }
    return lives;
}

void Presence::judge(std::uint32_t client, const Changes& changes, Time until, const Bounds& bounds,
                     Verdict& verdict) const {
    auto lives = lives_of(client);
    for (const Change& change : changes)
        if (!change.online) judge_offline(client, change, lives, verdict);
    for (std::size_t at = 0; at < lives.size(); ++at) {
        const Time back = at + 1 < lives.size() ? lives[at + 1].from : Time::max();
        judge_life(client, lives[at], std::min(back, until), changes, bounds, verdict);
    }
}

// Each offline must be explained by an end of its own, of which a client that is back was not back
// for long.
void Presence::judge_offline(std::uint32_t client, const Change& change, std::vector<Life>& lives,
                             Verdict& verdict) {
    if (lives.empty() || change.first < lives.front().from) return;
    Time back = Time::max();
    for (auto next = lives.rbegin(); next != lives.rend(); ++next) {
        Life& life = *next;
        if (back != Time::max() && change.first - back > settling) break;
        back = life.from;
        if (life.to > change.first + clock_error || life.shown_offline) continue;
        life.shown_offline = true;
        if (life.silent_end && !change.snapshot)
            verdict.detections.push_back(std::max(change.first - life.to, Duration::zero()));
        return;
    }
    // Between two lives it is no fault: the server may have taken a login for good that failed.
    const bool alive = std::ranges::any_of(lives, [&](const Life& life) {
        return life.from <= change.first && change.first < life.to;
    });
    if (alive && !change.snapshot)
        verdict.faults.push_back({Verdict::Fault::Kind::false_offline, client, change.first});
}

// `until`: when it was back, or when the observation ended.
void Presence::judge_life(std::uint32_t client, const Life& life, Time until,
                          const Changes& changes, const Bounds& bounds, Verdict& verdict) {
    using Kind = Verdict::Fault::Kind;
    const Time limit = life.to < until - bounds.ghost_after ? life.to + bounds.ghost_after : until;
    if (limit < until && shown(changes, limit) &&
        watched_until_news(changes, limit, bounds.watched_since))
        verdict.faults.push_back({Kind::ghost, client, life.to});

    if (shown(changes, life.from)) return;  // a takeover: there was nothing to tell
    const Time to = std::min(life.to, until);
    const auto news = std::ranges::find_if(changes, [&](const Change& change) {
        return change.online && change.first >= life.from - clock_error &&
               change.first - settling <= to;
    });
    if (news == changes.end()) {
        const bool shall_be_known = bounds.watched_since <= to - bounds.missing_after;
        if (to - life.from > bounds.missing_after && shall_be_known)
            verdict.faults.push_back({Kind::missing, client, life.from});
    } else if (!news->snapshot) {
        verdict.appearances.push_back(std::max(news->first - life.from, Duration::zero()));
    }
}

// News that came as a snapshot don't tell whether anybody was there to be told in time.
bool Presence::watched_until_news(const Changes& changes, Time at, Time watched_since) {
    const auto next =
        std::ranges::find_if(changes, [at](const Change& change) { return change.first > at; });
    return next == changes.end() ? watched_since <= at : !next->snapshot;
}

bool Presence::shown(const Changes& changes, Time at) {
    const auto last = std::find_if(changes.rbegin(), changes.rend(),
                                   [at](const Change& change) { return change.first <= at; });
    return last != changes.rend() && last->online;
}

std::optional<PresenceText> read_presence(std::string_view json) {
    const auto behind = [json](std::string_view key) {
        const auto at = json.find(key);
        return at == json.npos ? std::string_view() : json.substr(at + key.size());
    };
    PresenceText text;
    const auto state = behind("\"state\":\"");
    text.online = state.starts_with("online\"");
    if (!text.online && !state.starts_with("offline\"")) return {};
    const auto version = behind("\"version\":");
    const auto [end, error] =
        std::from_chars(version.data(), version.data() + version.size(), text.version);
    if (version.empty() || error != std::errc()) return {};
    return text;
}

}  // namespace pulsegate::load
