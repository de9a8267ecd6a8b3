#include "server/store/group_commit.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <variant>

#include "server/base/log.h"
#include "server/base/overloaded.h"
#include "server/message/stored_floor.h"
#include "server/store/start/opening.h"

namespace pulsegate {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_bytes_a_group = 4 * 1024 * 1024;
/// A transaction deletes up to this many messages and a quarter of the rest, so that dead messages
/// never pile up.
constexpr std::size_t deletions = 1000;

/// Would the same request fail on any disk?
bool is_mistake(int error) {
    switch (error & 0xff) {
        case SQLITE_CONSTRAINT:
        case SQLITE_TOOBIG:
        case SQLITE_MISMATCH:
        case SQLITE_RANGE: return true;
        default: return false;
    }
}

std::string described(const Operation& operation) {
    return std::visit(
        Overloaded{
            [](const PutMessage& put) {
                return fmt::format("message {} to {}", put.stamp, in_quotes(put.message->topic));
            },
            [](const PutOwner& put) {
                return fmt::format("the session of client {} of user {}", in_quotes(put.client),
                                   in_quotes(put.user));
            },
            [](const PutSubscription& put) {
                return fmt::format("the subscription of owner {} to {}", put.owner,
                                   in_quotes(put.filter));
            },
            [](const PutRetained& put) {
                return fmt::format("the retained message to {}", in_quotes(put.message->topic));
            },
            [](const PutDelayed& put) {
                return fmt::format("delayed message {} to {}", put.id,
                                   in_quotes(put.message->topic));
            },
            [](const PutEvent& put) { return fmt::format("event {}", in_quotes(put.body)); },
            [](const auto&) { return std::string("a change of a session or a user"); }},
        operation);
}

Stamp highest_stamp(const Unit& unit) {
    Stamp highest = 0;
    for (const Operation& operation : unit.operations)
        highest = std::max(
            highest, std::visit(Overloaded{[](const PutMessage& put) { return put.stamp; },
                                           [](const PutRetained& put) { return put.stamp; },
                                           [](const DropRetained& drop) { return drop.stamp; },
                                           [](const auto&) { return Stamp{0}; }},
                                operation));
    return highest;
}

}  // namespace

GroupCommit::GroupCommit(Database& database, WaitingIndex& index, DelayedTable& delayed,
                         EventTable& events, RecentDrops& drops, Mirror* mirror, const Terms& terms)
    : database_(database),
      index_(index),
      delayed_(delayed),
      events_(events),
      drops_(drops),
      mirror_(mirror),
      longest_(terms.longest_transaction),
      writer_(database, index, delayed, events, drops),
      reader_(database),
      file_size_(database),
      begin_(database, "BEGIN IMMEDIATE"),
      commit_(database, "COMMIT"),
      floor_(terms.floor),
      next_floor_(terms.floor) {
    set_stored_floor(floor_);
}

std::size_t GroupCommit::commit(std::deque<Request>& requests, std::optional<std::size_t> count) {
    for (;;) {
        const std::size_t tried = attempt(requests, count);
        if (database_.ok()) {
            committed(requests, tried);
            return tried;
        }
        database_.roll_back();
        if (mirror_) mirror_->rolled_back();
        if (!mistaken_) return tried;
        exclude_mistake();
    }
}

/// Leaves out the operation, or refuses the request, that the database rejects. Another attempt
/// would fail, too, and block all later requests.
void GroupCommit::exclude_mistake() {
    const auto* unit = std::get_if<Unit>(&mistaken_->what);
    left_out_.fetch_add(1, std::memory_order_relaxed);
    if (unit && unit->source != 0) {
        log_limited(spdlog::level::err, "the database rejects {}, so this is lost: {}",
                    described(unit->operations[last_tried_]), database_.error_text());
        mistaken_->left_out.push_back(last_tried_);
        mistaken_->outcome = Outcome::incomplete;
    } else {
        log_limited(spdlog::level::err,
                    "a request was refused, because the database rejects it: {}",
                    database_.error_text());
        mistaken_->outcome = Outcome::refused;
    }
    database_.clear_error();
}

std::size_t GroupCommit::attempt(std::deque<Request>& requests, std::optional<std::size_t> count) {
    const auto end = Clock::now() + longest_;
    const auto is_full = [&] {
        return writer_.bytes() >= most_bytes_a_group || Clock::now() >= end;
    };
    mistaken_ = nullptr;
    if (mirror_) mirror_->prepare();
    writer_.begin();
    begin_.run();
    remove_dead();
    file_size_.shrink();
    std::size_t done = 0;
    while (done < count.value_or(requests.size()) && database_.ok()) {
        if (!count && done > 0 && is_full()) break;
        perform(requests[done++]);
    }
    writer_.finish();
    keep_floor();
    if (next_wal_) writer_.put_meta("wal", *next_wal_);
    if (mirror_) mirror_->write();
    commit_.run();
    return done;
}

/// Deletes first, because a deleted message may get receivers again: then this transaction writes
/// it anew.
void GroupCommit::remove_dead() {
    const auto& dead = index_.dead();
    removed_ = std::min(dead.size(), deletions + dead.size() / 4);
    std::vector<Stamp> stamps(dead.begin(), dead.begin() + static_cast<std::ptrdiff_t>(removed_));
    std::erase_if(stamps, [&](Stamp stamp) { return index_.is_waited_for(stamp); });
    std::sort(stamps.begin(), stamps.end());
    if (!writer_.remove_messages(stamps)) removed_ = 0;
}

void GroupCommit::perform(Request& request) {
    std::visit(
        Overloaded{
            [&](Unit& unit) { perform(unit, request); },
            [&](Request::ReadMessages& read) { read.found = reader_.messages(read.stamps); },
            [&](Request::TakeDelayed& take) { take.found = delayed_.take(take.before, take.most); },
            [&](Request::ListDelayed& list) {
                list.found = delayed_.list(list.user, list.after, list.most);
            },
            [&](Request::ReadEvents& read) {
                read.found = events_.read(read.after, read.kinds, read.most);
            },
            [&](Request::ListDeadLetters& list) {
                list.found = events_.dead_letters(list.after, list.to_replay, list.most);
            }},
        request.what);
    if (!database_.ok() && is_mistake(database_.error())) mistaken_ = &request;
}

void GroupCommit::perform(Unit& unit, const Request& request) {
    if (request.outcome == Outcome::refused) return;
    last_tried_ = writer_.write(unit, request.left_out);
    highest_ = std::max(highest_, highest_stamp(unit));
}

bool GroupCommit::floor_is_due() const {
    return must_write_floor_ || floor_ < std::max(highest_, stamp_at(wall_now())) + floor_ahead / 2;
}

void GroupCommit::keep_floor() {
    next_floor_ = floor_;
    if (!floor_is_due()) return;
    const Stamp latest = std::max(highest_, stamp_at(wall_now()));
    next_floor_ = std::max(floor_, latest + floor_ahead);  // the clock may have been put back
    for (const char* const key : {"floor", "cursor_floor"}) writer_.put_meta(key, next_floor_);
}

void GroupCommit::committed(const std::deque<Request>& requests, std::size_t count) {
    floor_ = next_floor_;
    set_stored_floor(floor_);
    must_write_floor_ = false;
    if (mirror_) mirror_->committed();
    next_wal_.reset();
    file_size_.measure();
    writer_.committed();
    index_.forget_dead(removed_);
    for (std::size_t i = 0; i < count; ++i) {
        const auto* unit = std::get_if<Unit>(&requests[i].what);
        if (!unit || requests[i].outcome == Outcome::refused) continue;
        add_to_index(requests[i], *unit);
        drops_.heard(unit->source, unit->generation);
    }
    if (count == requests.size() && drops_.caught_up()) writer_.dropped_rows_age();
    for (auto& [owner, cursor] : writer_.cursors())
        if (cursor)
            index_.set_cursor(owner, std::move(*cursor));
        else
            index_.end_owner(owner);
}

void GroupCommit::add_to_index(const Request& request, const Unit& unit) {
    for (std::size_t i = 0; i < unit.operations.size(); ++i) {
        if (std::ranges::find(request.left_out, i) != request.left_out.end()) continue;
        std::visit(
            Overloaded{
                [&](const PutOwner& put) { index_.add_owner(put.owner); },
                [&](const EndOwner& end) { index_.end_owner(end.owner); },
                [&](const PutMessage& put) { index_.add_message(put.stamp, put.receivers); },
                [&](const PutReceiver& put) { index_.add_message(put.stamp, {put.receiver}); },
                [](const auto&) {}},
            unit.operations[i]);
    }
}

}  // namespace pulsegate
