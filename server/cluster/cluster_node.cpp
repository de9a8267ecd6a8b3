#include "server/cluster/cluster_node.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "server/cluster/rules/incarnation.h"
#include "server/web/web_origin.h"

namespace pulsegate {

namespace {

std::string twin_trouble(std::string_view name, const std::string& address) {
    return fmt::format(
        "node-name: a node named {} is running at {}; stop it, or give this one another name", name,
        address);
}

const Beat* find_beat(const std::vector<Beat>& beats, const std::string& incarnation) {
    const auto found = std::find_if(beats.begin(), beats.end(), [&](const Beat& beat) {
        return beat.incarnation == incarnation;
    });
    return found == beats.end() ? nullptr : &*found;
}

}  // namespace

/// The link answers before this node has joined. From such an answer the other nodes learn at once
/// that the node's earlier process is gone. An owner must know this to keep serving while Redis is
/// away.
ClusterNode::ClusterNode(Place place)
    : place_(std::move(place)), hello_{place_.name + "#0000000000000000", "-"} {}

LinkHello ClusterNode::hello() const {
    const std::lock_guard lock(mutex_);
    LinkHello hello = hello_;
    hello.has_redis = may_condemn_soon_ && boot_now() < answered_ + 2 * place_.pace.beat;
    return hello;
}

// -- joining --

void ClusterNode::join(RedisConnection& redis, Deadline deadline, NodeLink& link) {
    address_ = link.address();
    // Called before the aggregate is built: if it threw within the initializer, GCC 12 would
    // destroy the aggregate's members twice.
    std::vector<std::string> dead = find_dead(redis, deadline, link);
    Joining joining{.birth = new_incarnation("").substr(1),
                    .incarnation = new_incarnation(place_.name),
                    .row = {false, address_, place_.version},
                    .dead = std::move(dead)};
    Joined joined = ClusterCalls(redis, deadline).join(joining);
    if (!joined.twin.empty())
        throw std::runtime_error(fmt::format(
            "node-name: {} was just started elsewhere; give this node another name", place_.name));
    if (!joined.trouble.empty()) throw RedisError(joined.trouble);
    if (joined.partitions != std::to_string(partitions) || joined.format != ClusterCalls::format)
        throw std::runtime_error(fmt::format(
            "cluster: the data in this Redis has {} partitions and format {}, and this version "
            "needs {} and {}; use another Redis, or the version that wrote it",
            joined.partitions, joined.format, partitions, ClusterCalls::format));
    begin_life(std::move(joined), std::move(joining));
}

/// The earlier incarnations of this node that no node has condemned yet. Throws if one of them may
/// be alive.
std::vector<std::string> ClusterNode::find_dead(RedisConnection& redis, Deadline deadline,
                                                NodeLink& link) {
    const Poll seen = ClusterCalls(redis, deadline).poll();
    std::vector<std::string> dead;
    for (const Beat& beat : seen.beats) {
        if (beat.is_condemned || node_name_of(beat.incarnation) != place_.name) continue;
        if (beat.incarnation != own_.incarnation && !is_gone(redis, deadline, link, seen, beat))
            throw std::runtime_error(
                twin_trouble(place_.name, seen.node(beat.incarnation).link_address));
        dead.push_back(beat.incarnation);
    }
    return dead;
}

bool ClusterNode::is_gone(RedisConnection& redis, Deadline deadline, NodeLink& link,
                          const Poll& seen, const Beat& twin) {
    const LinkReport report = link.ask(seen.node(twin.incarnation).link_address);
    // The answer may come from this node itself, if both machines use the same address.
    const bool is_own = report.hello.incarnation == hello().incarnation;
    if (report.state != LinkReport::State::unreachable && !is_own)
        return report.is_gone(twin.incarnation);
    std::this_thread::sleep_for(std::chrono::milliseconds(place_.pace.beat * 5 / 2));
    const Poll later = ClusterCalls(redis, deadline).poll();
    const Beat* const now = find_beat(later.beats, twin.incarnation);
    return !now || *now == twin || now->is_condemned;
}

void ClusterNode::begin_life(Joined joined, Joining joining) {
    own_ = {.incarnation = std::move(joining.incarnation)};
    birth_ = std::move(joined.birth);
    judge_.emplace(own_.incarnation, place_.pace, monotonic_now());
    poll_ = {};
    next_beat_ = 0;
    claimable_since_.reset();
    has_warned_ = false;
    spdlog::info("joined the cluster {} as {}", birth_, own_.incarnation);
    const std::lock_guard lock(mutex_);
    hello_ = {own_.incarnation, birth_};
}

// -- beating --

void ClusterNode::begin_run() { judge_->begin_run(monotonic_now()); }

RowStore::Result ClusterNode::beat(RedisConnection& redis, Deadline deadline, bool is_new_run,
                                   bool is_owner) {
    const Millis now = monotonic_now();
    const Millis sent = boot_now();
    ++own_.judged;
    if (is_beat_due()) {
        // Other nodes conclude from this counter how long they were silent, so it never runs faster
        // than the clock.
        if (!judge_->is_first_lease(now)) ++own_.counted;
        next_beat_ = std::max(next_beat_, now - place_.pace.beat / 2) + place_.pace.beat;
    }
    Poll poll = ClusterCalls(redis, deadline)
                    .beat(birth_, own_, {is_owner, address_, place_.version}, is_new_run);
    if (poll.result.answer != RowStore::Answer::done) return poll.result;
    if (is_new_run && judge_->was_silent(poll.beats))
        return {RowStore::Answer::fenced,
                "others had Redis for long while this node had not, and Redis has lost its tail"};
    judge_->hear(now, poll.beats);
    may_condemn_soon_ = judge_->may_condemn_soon();
    poll_ = std::move(poll);
    sent_ = sent;
    answered_ = boot_now();
    warn_of_useless_address();
    return {};
}

void ClusterNode::renew(ServingLease& lease) const {
    std::vector<ServingLease::Other> others;
    for (const Beat& beat : poll_.beats)
        if (!beat.is_condemned && beat.incarnation != own_.incarnation)
            others.push_back({beat.incarnation, link_of(beat)});
    lease.renew(sent_, std::move(others));
}

// -- judging --

void ClusterNode::judge(RedisConnection& redis, Deadline deadline, NodeLink& link,
                        const std::function<void()>& before_condemning) {
    link.watch(addresses(place_.pace.beat));
    if (judge_->is_first_lease(monotonic_now())) return;
    for (Beat& beat : poll_.beats) {
        if (beat.is_condemned || beat.incarnation == own_.incarnation) continue;
        const auto report = link.report(link_of(beat), 2 * place_.pace.beat);
        if (!judge_->is_dead(beat, report && report->is_gone(beat.incarnation))) continue;
        before_condemning();
        beat.is_condemned = ClusterCalls(redis, deadline).condemn(own_.incarnation, beat);
        if (!beat.is_condemned) continue;
        judge_->note_condemned(beat.incarnation);
        spdlog::warn("condemned node {}: its last heartbeat is {} ms old", beat.incarnation,
                     judge_->standstill(beat.incarnation));
    }
}

void ClusterNode::ask_all(NodeLink& link) const { link.watch(addresses(0)); }

/// Link addresses of the living nodes whose counter has not changed for this long.
std::set<std::string> ClusterNode::addresses(Millis standstill) const {
    std::set<std::string> found;
    for (const Beat& beat : poll_.beats)
        if (!beat.is_condemned && beat.incarnation != own_.incarnation &&
            judge_->standstill(beat.incarnation) >= standstill)
            found.insert(link_of(beat));
    found.erase("");
    return found;
}

/// The node's link address, or "" if a probe would reach this machine instead and find the other
/// node dead. This happens if link-listen has its default on two machines, or on one of them.
std::string ClusterNode::link_of(const Beat& beat) const {
    const std::string& address = poll_.node(beat.incarnation).link_address;
    const bool is_here = address == address_ && node_name_of(beat.incarnation) != place_.name;
    const bool is_elsewhere = is_loopback_host(address) != is_loopback_host(address_);
    return is_here || is_elsewhere ? std::string() : address;
}

void ClusterNode::warn_of_useless_address() {
    if (has_warned_) return;
    for (const Beat& beat : poll_.beats) {
        if (beat.is_condemned || beat.incarnation == own_.incarnation) continue;
        if (!link_of(beat).empty()) continue;
        has_warned_ = true;
        spdlog::warn(
            "node {} has the link address {}, and this node has {}: neither can tell whether the "
            "other's process is gone; set link-listen or link-address",
            beat.incarnation, poll_.node(beat.incarnation).link_address, address_);
    }
}

bool ClusterNode::may_claim(const std::vector<Token>& tokens) {
    const Millis now = monotonic_now();
    const auto lives = [&](const Token& token) {
        const Beat* const owner = find_beat(poll_.beats, token.owner);
        return owner && !owner->is_condemned;
    };
    if (judge_->is_first_lease(now) || !judge_->has_heard_all(now) ||
        std::any_of(tokens.begin(), tokens.end(), lives)) {
        claimable_since_.reset();
        return false;
    }
    if (!claimable_since_) claimable_since_ = now;
    const auto place = static_cast<Millis>(judge_->claimants_before(*claimable_since_));
    return now >= *claimable_since_ + place * place_.pace.claim_step();
}

std::vector<ClusterView::Node> ClusterNode::view(const std::string& owner) const {
    std::vector<ClusterView::Node> nodes;
    const Millis silence = answered_ == 0 ? 0 : boot_now() - answered_;
    for (const Beat& beat : poll_.beats) {
        const NodeRow& row = poll_.node(beat.incarnation);
        nodes.push_back(
            {.name = std::string(node_name_of(beat.incarnation)),
             .incarnation = beat.incarnation,
             .link_address = row.link_address,
             .version = row.version,
             .beat_age = std::chrono::milliseconds(judge_->standstill(beat.incarnation) + silence),
             .beats = beat.judged,
             .is_owner = beat.incarnation == owner && !beat.is_condemned,
             .is_condemned = beat.is_condemned});
    }
    return nodes;
}

}  // namespace pulsegate
