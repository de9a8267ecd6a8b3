#include "loadgen/truth/presence.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "loadgen/truth/mixing.h"
#include "loadgen/truth/wire.h"

namespace pulsegate::load {

using namespace std::chrono_literals;

namespace {

/// The clocks of workers on several machines differ by less than this.
constexpr Duration clock_error = 5ms;

constexpr std::size_t liveness_size = 4 + 1 + 8 + 8;

}  // namespace

void put(const Liveness& fact, Buffer& out) {
    put(fact.client, out);
    put(static_cast<std::uint8_t>(fact.kind), out);
    put(static_cast<std::uint64_t>(fact.at.time_since_epoch().count()), out);
    put(static_cast<std::uint64_t>(fact.limit.count()), out);
}

std::optional<Liveness> take_liveness(Bytes& in) {
    if (in.size() < liveness_size) return {};
    Liveness fact;
    fact.client = take<std::uint32_t>(in);
    const auto kind = take<std::uint8_t>(in);
    if (kind > static_cast<std::uint8_t>(Liveness::Kind::tried)) return {};
    fact.kind = static_cast<Liveness::Kind>(kind);
    fact.at = Time(Duration(take<std::uint64_t>(in)));
    fact.limit = Duration(take<std::uint64_t>(in));
    return fact;
}

std::size_t Presence::PairHash::operator()(const Pair& pair) const {
    return mix(std::uint64_t{pair.observer} << 32 | pair.user);
}

Presence::Order Presence::observed(const Observation& told) {
    Told& before = last_told_[{told.observer, told.user}];
    // MQTT-4.4.0-1: a message that was not acknowledged comes again on the next connection.
    const bool may_repeat = told.is_again && before.at < told.since;
    const Time earliest = told.may_have_waited ? before.at : told.at - told.delay;
    if (told.version < before.version) return may_repeat ? Order::repeated : Order::out_of_order;
    Observation seen = told;
    seen.snapshot = told.snapshot && before.at < told.since;
    const bool may_be_old = seen.snapshot || told.may_have_waited;
    const std::uint64_t last = std::exchange(before, {told.version, told.at}).version;

    Changes& changes = changes_[seen.user];
    auto change = std::ranges::lower_bound(changes, seen.version, {}, &Change::version);
    const bool known = change != changes.end() && change->version == seen.version;
    const bool contradicts = known && change->online != seen.online;
    if (seen.version == last) return contradicts ? Order::contradiction : Order::repeated;

    if (!known) {
        change = changes.insert(change, {seen.version, seen.at, earliest, seen.online, may_be_old,
                                         seen.may_have_waited});
    } else {
        note_delay(seen, earliest, *change);
        change->first = std::min(change->first, seen.at);
        if (change->waited == seen.may_have_waited)
            change->earliest = std::min(change->earliest, earliest);
        else if (change->waited)
            change->earliest = earliest;
        change->waited = change->waited && seen.may_have_waited;
        change->snapshot = change->snapshot && may_be_old;
    }
    if (seen.is_by_topic) change->first_by_topic = std::min(change->first_by_topic, seen.at);
    note_skips(seen, last, changes, change);
    return contradicts ? Order::contradiction : Order::news;
}

void Presence::note_delay(const Observation& seen, Time earliest, const Change& change) {
    if (seen.snapshot || seen.is_again || change.snapshot || change.first < seen.since) return;
    if (earliest <= change.first + settling) return;
    skips_.push_back({{Verdict::Fault::Kind::late, seen.user, change.first, seen.observer},
                      earliest - change.first});
}

void Presence::note_skips(const Observation& seen, std::uint64_t last, const Changes& changes,
                          Changes::const_iterator change) {
    if (seen.snapshot) return;
    Time next = change->earliest;
    while (change != changes.begin() && (--change)->version > last) {
        next = std::min(next, std::next(change)->earliest);
        if (change->first >= seen.since && !change->snapshot)
            skips_.push_back(
                {{Verdict::Fault::Kind::hidden, seen.user, change->first, seen.observer},
                 std::max(next, change->first) - change->first});
    }
}

bool Presence::was_told(std::uint32_t user, std::uint64_t version, Time before) const {
    const auto found = changes_.find(user);
    if (found == changes_.end()) return false;
    const auto change = std::ranges::lower_bound(found->second, version, {}, &Change::version);
    return change != found->second.end() && change->version == version &&
           change->first_by_topic < before;
}

Presence::FirstAnswer Presence::first_answer(const Newcomer& newcomer, std::uint32_t user,
                                             Time from, Time to) const {
    const auto found = changes_.find(user);
    if (found == changes_.end()) return FirstAnswer::right;
    const Changes& changes = found->second;
    const auto newest = std::find_if(changes.rbegin(), changes.rend(), [&](const Change& change) {
        return from <= change.first_by_topic && change.first_by_topic < to;
    });
    if (newest == changes.rend()) return FirstAnswer::right;
    const auto last = last_told_.find({newcomer.observer, user});
    const Told told = last == last_told_.end() ? Told{} : last->second;
    const bool is_answered = told.at >= newcomer.connected;
    if (is_answered || newcomer.is_resumed) {
        if (told.version >= newest->version) return FirstAnswer::right;
        if (is_answered && !newcomer.is_resumed) return FirstAnswer::old;
    }
    // Later, the user may have left while nobody watched, and may be forgotten.
    constexpr Duration remembered = std::chrono::seconds(30);
    const bool is_known =
        newest->online && newcomer.connected - newest->first_by_topic < remembered;
    return is_known ? FirstAnswer::missing : FirstAnswer::right;
}

void Presence::happened(std::uint32_t user, const Liveness& fact) { facts_[user].push_back(fact); }

// -- lives --

Presence::Lives Presence::lives_of(std::vector<Liveness> facts) {
    std::ranges::stable_sort(facts, {}, &Liveness::at);
    std::ranges::stable_sort(facts, {}, &Liveness::client);
    Lives lives;
    for (auto first = facts.begin(); first != facts.end();) {
        const auto next = std::find_if(
            first, facts.end(), [&](const Liveness& fact) { return fact.client != first->client; });
        add_lives_of_client({first, next}, lives);
        first = next;
    }
    return united(std::move(lives));
}

void Presence::add_lives_of_client(std::span<const Liveness> facts, Lives& lives) {
    bool alive = false;
    for (const Liveness& fact : facts) {
        if (fact.kind == Liveness::Kind::tried) continue;
        const bool comes = fact.kind == Liveness::Kind::online;
        if (comes == alive) continue;
        alive = comes;
        if (comes) {
            lives.push_back({.from = fact.at, .logged_in = fact.at + fact.limit});
            continue;
        }
        Life& life = lives.back();
        life.to = fact.at;
        life.silent_end = fact.kind == Liveness::Kind::silent;
        // Without a keepalive a server need not notice silence.
        const bool endless = life.silent_end && fact.limit == Duration::zero();
        life.limit = endless ? Time::max() : fact.at + fact.limit;
    }
}

// If a client has logged in before another client of the user is gone, the user is online all the
// time. For the server, a client that has fallen silent stays online until its limit, even if other
// clients come and go meanwhile.
Presence::Lives Presence::united(Lives lives) {
    std::ranges::stable_sort(lives, {}, &Life::from);
    Lives all;
    Time limit = Time::min();
    for (Life& life : lives) {
        limit = life.limit = std::max(limit, life.limit);
        if (all.empty() || life.logged_in > all.back().to) {
            all.push_back(life);
            continue;
        }
        Life& before = all.back();
        before.limit = limit;
        if (life.to <= before.to) continue;
        before.to = life.to;
        before.silent_end = life.silent_end;
    }
    return all;
}

// -- judging --

void Presence::judge(std::uint32_t user, const std::vector<Liveness>& facts, Time until,
                     const Bounds& bounds, Verdict& verdict) const {
    auto lives = lives_of(facts);
    const auto found = changes_.find(user);
    if (found == changes_.end()) return judge_unseen(user, lives, until, bounds, verdict);
    const Changes& changes = found->second;
    for (const Change& change : changes)
        if (!change.online) judge_offline(user, change, lives, verdict);
    judge_onlines(user, facts, changes, lives, bounds, verdict);
    for (std::size_t at = 0; at < lives.size(); ++at) {
        const Time back = at + 1 < lives.size() ? lives[at + 1].from : Time::max();
        judge_life(user, lives[at], std::min(back, until), changes, bounds, verdict);
    }
}

void Presence::judge_unseen(std::uint32_t user, const Lives& lives, Time until,
                            const Bounds& bounds, Verdict& verdict) {
    const auto life = std::ranges::find_if(lives, [&](const Life& each) {
        return due(each.logged_in, std::min(each.to, until), bounds);
    });
    if (life != lives.end())
        verdict.faults.push_back({Verdict::Fault::Kind::unseen, user, life->from});
}

bool Presence::due(Time from, Time to, const Bounds& bounds) {
    return to - from > bounds.slack && bounds.watched_since <= to - bounds.slack;
}

void Presence::judge_last(std::uint32_t observer, std::uint32_t user, Time since, Time until,
                          Duration slack, Verdict& verdict) const {
    const auto found = changes_.find(user);
    if (found == changes_.end()) return;
    const Change& newest = found->second.back();
    if (newest.snapshot || newest.first < since || newest.first > until - slack) return;
    const auto last = last_told_.find({observer, user});
    if (last == last_told_.end() || last->second.version < newest.version)
        verdict.faults.push_back({Verdict::Fault::Kind::hidden, user, newest.first, observer});
}

// Each offline needs its own disconnect. If the user is back, it must have come back only recently.
void Presence::judge_offline(std::uint32_t user, const Change& change, Lives& lives,
                             Verdict& verdict) {
    if (lives.empty() || change.first < lives.front().from) return;
    Time back = Time::max();
    for (auto next = lives.rbegin(); next != lives.rend(); ++next) {
        Life& life = *next;
        if (back != Time::max() && change.first - back > settling) break;
        back = life.from;
        if (life.to > change.first + clock_error || life.shown_offline) continue;
        life.shown_offline = true;
        // If the report waited for its watcher, its time does not tell when the server noticed the
        // end.
        const bool in_time = change.earliest >= life.to - clock_error;
        if (life.silent_end && !change.snapshot && in_time)
            verdict.detections.push_back(std::max(change.earliest - life.to, Duration::zero()));
        return;
    }
    // An offline between two lives is no fault: the server may have accepted a login that the
    // client saw fail.
    const auto life = std::ranges::find_if(lives, [&](const Life& each) {
        return each.from <= change.first && change.first < each.to;
    });
    if (life == lives.end()) return;
    // The answer to a subscription may be older than a login that the server was slow to accept.
    const bool may_be_old = change.snapshot && change.first - life->from <= settling;
    if (!may_be_old)
        verdict.faults.push_back({Verdict::Fault::Kind::false_offline, user, change.first});
}

// Each online after an offline needs its own login that has not ended long ago, unless the server
// may still consider the user online.
void Presence::judge_onlines(std::uint32_t user, const std::vector<Liveness>& facts,
                             const Changes& changes, const Lives& lives, const Bounds& bounds,
                             Verdict& verdict) {
    const auto over = [](const Life& life, const Change& change, Duration slack) {
        return life.limit != Time::max() && life.limit + slack < change.earliest;
    };
    const auto begun = [](Time from, const Change& change) {
        return from <= change.first + clock_error;
    };
    bool online = false;
    auto unused = lives.begin();
    for (const Change& change : changes) {
        const bool was_online = std::exchange(online, change.online);
        if (!change.online || was_online) continue;
        const bool may_be_another_login =
            lives.empty() || !begun(lives.front().from, change) ||
            std::ranges::any_of(facts, [&](const Liveness& fact) {
                return fact.kind == Liveness::Kind::tried && begun(fact.at, change);
            });
        if (may_be_another_login) continue;
        while (unused != lives.end() && over(*unused, change, settling)) ++unused;
        if (unused != lives.end() && begun(unused->from, change)) {
            ++unused;
            continue;
        }
        const bool is_there = std::ranges::any_of(lives, [&](const Life& life) {
            return begun(life.from, change) && !over(life, change, bounds.slack);
        });
        if (!is_there)
            verdict.faults.push_back({Verdict::Fault::Kind::false_online, user, change.first});
    }
}

// `until` is the time when the user was back, or the end of the observation.
void Presence::judge_life(std::uint32_t user, const Life& life, Time until, const Changes& changes,
                          const Bounds& bounds, Verdict& verdict) {
    using Kind = Verdict::Fault::Kind;
    const Time limit = life.limit < until - bounds.slack ? life.limit + bounds.slack : until;
    if (limit < until && surely_shown(changes, limit) &&
        watched_until_news(changes, limit, bounds.watched_since))
        verdict.faults.push_back({Kind::ghost, user, life.to});

    if (shown(changes, life.from)) return;  // a takeover: there was nothing to tell
    const Time to = std::min(life.to, until);
    const auto news = std::ranges::find_if(changes, [&](const Change& change) {
        return change.online && change.first >= life.from - clock_error &&
               change.first - settling <= to;
    });
    if (news == changes.end()) {
        if (due(life.logged_in, to, bounds))
            verdict.faults.push_back({Kind::missing, user, life.from});
    } else if (!news->snapshot) {
        verdict.appearances.push_back(std::max(news->first - life.from, Duration::zero()));
        if (shown_late(*news, news == changes.begin(), life, to, bounds))
            verdict.faults.push_back({Kind::shown_late, user, life.from});
    }
}

bool Presence::shown_late(const Change& news, bool is_new, const Life& life, Time to,
                          const Bounds& bounds) {
    if (news.waited || bounds.watched_since > life.logged_in) return false;
    const bool may_settle = is_new || life.logged_in < bounds.settled_since;
    const Time deadline = life.logged_in + (may_settle ? settling : bounds.login_slack);
    return deadline < to && deadline < news.earliest;
}

// If the next report came as a snapshot, or waited for its watcher, it is unknown whether anybody
// was watching at that time.
bool Presence::watched_until_news(const Changes& changes, Time at, Time watched_since) {
    const auto next =
        std::ranges::find_if(changes, [at](const Change& change) { return change.first > at; });
    if (next == changes.end()) return watched_since <= at;
    return !next->snapshot && next->earliest > at;
}

bool Presence::shown(const Changes& changes, Time at) {
    const auto last = std::find_if(changes.rbegin(), changes.rend(),
                                   [at](const Change& change) { return change.first <= at; });
    return last != changes.rend() && last->online;
}

bool Presence::surely_shown(const Changes& changes, Time at) {
    const auto last = std::find_if(changes.rbegin(), changes.rend(), [at](const Change& change) {
        return (change.online ? change.first : change.earliest) <= at;
    });
    return last != changes.rend() && last->online;
}

}  // namespace pulsegate::load
