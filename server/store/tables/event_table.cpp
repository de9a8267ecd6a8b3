#include "server/store/tables/event_table.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/store/rows/body.h"
#include "server/store/rows/row_codec.h"

namespace pulsegate {

namespace {

/// The bytes of a row besides its text.
constexpr std::size_t event_bookkeeping = 32;
/// The maximum bytes of one answer. A single event may have more.
constexpr std::size_t event_bytes_in_an_answer = 1024 * 1024;
/// How many rows are searched for one answer, because other requests wait.
constexpr std::size_t events_searched = 4096;
/// How many rows one transaction deletes. A transaction never adds more than a few times as many.
constexpr std::size_t events_trimmed = 20'000;
/// How many bytes one transaction deletes while the disk is nearly full, because the deletion
/// itself needs room in the WAL.
constexpr std::size_t bytes_trimmed_when_short = 256 * 1024;
/// If there are more dead letters, the oldest are deleted.
constexpr std::size_t most_dead_letters = 10'000;

std::size_t event_cost(std::string_view body) { return event_bookkeeping + body.size(); }

std::string_view shown_body(std::string_view body) { return body.substr(0, 200); }

}  // namespace

EventTable::EventTable(Database& database, const EventLogSettings& settings)
    : database_(database),
      webhook_kinds_(settings.webhook_kinds),
      max_bytes_(settings.max_bytes),
      room_(settings.max_bytes),
      put_(database, "INSERT INTO event VALUES(?,?,?,?,?)"),
      read_(database,
            "SELECT number, kind, checksum, body FROM event WHERE number > ? ORDER BY number"),
      totals_(database, "SELECT number, total FROM event ORDER BY number"),
      count_wanted_(database,
                    "SELECT count(*) FROM event WHERE number > ? AND number <= ?"
                    " AND (? >> kind) & 1"),
      trim_(database, "DELETE FROM event WHERE number <= ?"),
      put_meta_(database, "INSERT OR REPLACE INTO meta VALUES(?,?)"),
      put_dead_(database, "INSERT OR REPLACE INTO dead_letter VALUES(?,?,?,?,?,?,?)"),
      refuse_again_(database,
                    "UPDATE dead_letter SET failed = ?, why = ?, to_replay = 0 WHERE number = ?"),
      drop_dead_(database, "DELETE FROM dead_letter WHERE ?1 = 0 OR number = ?1"),
      drop_oldest_dead_(database,
                        "DELETE FROM dead_letter WHERE number = (SELECT min(number) FROM "
                        "dead_letter)"),
      replay_(database,
              "UPDATE dead_letter SET to_replay = 1"
              " WHERE (?1 = 0 AND to_replay = 0) OR number = ?1"),
      count_dead_(database, "SELECT count(*), sum(to_replay) FROM dead_letter"),
      list_dead_(database,
                 "SELECT number, kind, failed, to_replay, checksum, why, body FROM dead_letter"
                 " WHERE number > ? AND to_replay >= ? ORDER BY number") {
    load();
}

void EventTable::load() {
    Statement(database_, "INSERT OR IGNORE INTO meta VALUES('event_log', ?)")
        .run(random_key().low >> 1);
    Statement(database_,
              "SELECT number, total, length(CAST(body AS BLOB)) FROM event"
              " ORDER BY number LIMIT 1")
        .each([&](const Row& row) {
            next_.first = row.bits(0);
            next_.total_before = row.bits(1) - event_bookkeeping - row.bits(2);
        });
    Statement(database_, "SELECT number, total FROM event ORDER BY number DESC LIMIT 1")
        .each([&](const Row& row) {
            next_.last = row.bits(0);
            next_.total = row.bits(1);
        });
    Statement(database_,
              "SELECT meta.value, ifnull((SELECT max(number) FROM event WHERE number <= meta.value)"
              ", 0) FROM meta WHERE key = 'event_floor'")
        .each([&](const Row& row) {
            next_.lost_upto = row.bits(0);
            next_.lost_after = row.bits(1);
        });
    // A new webhook gets only events from now on.
    if (webhook_kinds_ != 0)
        Statement(database_, "INSERT OR IGNORE INTO meta VALUES('webhook', ?)").run(next_.last);
    Statement(database_, "SELECT key, value FROM meta WHERE key IN ('event_log', 'webhook')")
        .each([&](const Row& row) {
            (row.view(0) == "webhook" ? next_.delivered : next_.log) = row.bits(1);
        });
    // `delivered` is larger if the newest events were damaged.
    next_.delivered = std::min(next_.delivered, next_.last);
    next_.bytes = next_.total - next_.total_before;
    next_.waiting = wanted(next_.delivered, next_.last);
    count_dead();
    committed();
}

/// How many events with numbers above `after` and up to `upto` the webhook wants.
std::uint64_t EventTable::wanted(EventNumber after, EventNumber upto) {
    std::uint64_t found = 0;
    if (webhook_kinds_ != 0 && after < upto)
        count_wanted_.each([&](const Row& row) { found = row.bits(0); }, after, upto,
                           webhook_kinds_);
    return found;
}

void EventTable::put(const PutEvent& put) {
    next_.total += event_cost(put.body);
    next_.bytes = next_.total - next_.total_before;
    next_.waiting += webhook_kinds_ >> put.kind & 1;
    next_.last = std::max(next_.last, next_.lost_upto) + 1;
    put_.run(next_.last, put.kind, next_.total, checksum({put.body}), put.body);
}

void EventTable::delivered(EventDelivered delivered) {
    next_.waiting -= wanted(next_.delivered, delivered.upto);
    next_.delivered = delivered.upto;
    put_meta_.run("webhook", delivered.upto);
}

void EventTable::finish() {
    if (!keeps_all() && next_.bytes > room_) trim();
}

bool EventTable::halve() {
    constexpr std::size_t worth_halving = 64 * 1024;
    if (keeps_all()) return false;
    if (state_.bytes < worth_halving || room_ < max_bytes_) return state_.bytes >= worth_halving;
    room_ = state_.bytes / 2;
    return true;
}

void EventTable::trim() {
    const EventNumber upto = end_of_excess();
    if (upto < next_.first) return;
    const auto lost = wanted(next_.delivered, upto);
    next_.lost += lost;
    next_.waiting -= lost;
    trim_.run(upto);
    next_.first = upto + 1;
    next_.bytes = next_.total - next_.total_before;
}

/// The number of the newest event that must be deleted; 0 if none must.
EventNumber EventTable::end_of_excess() {
    EventNumber end = 0;
    std::size_t rows = 0;
    const std::uint64_t total_to_spare =
        room_ < max_bytes_ ? next_.total_before + bytes_trimmed_when_short : next_.total;
    totals_.each([&](const Row& row) {
        const bool fits = next_.total - next_.total_before <= room_;
        const bool is_enough = next_.total_before >= total_to_spare || rows++ == events_trimmed;
        if (fits || is_enough || row.bits(0) == next_.last) return false;
        end = row.bits(0);
        next_.total_before = row.bits(1);
        return true;
    });
    return end;
}

void EventTable::committed() {
    const bool has_news = next_.last != state_.last || next_.to_replay > state_.to_replay;
    if (next_.lost > state_.lost)
        log_limited(spdlog::level::err,
                    "{} events were deleted before the webhook received them: {}",
                    next_.lost - state_.lost,
                    room_ < max_bytes_ ? "the disk is short" : "event-log-bytes is reached");
    state_ = next_;
    if (state_.bytes <= room_) room_ = max_bytes_;
    const std::lock_guard lock(mutex_);
    shown_ = state_;
    if (!has_news) return;
    for (const auto& told : watchers_) told();
}

EventPage EventTable::read(EventNumber after, std::uint32_t kinds, std::size_t most) {
    EventPage page{.events = {}, .upto = after};
    std::size_t searched = 0;
    std::size_t bytes = 0;
    read_.each(
        [&](const Row& row) {
            page.upto = row.bits(0);
            if (kinds >> row.bits(1) & 1) {
                StoredEvent event{page.upto, row.as<std::uint8_t>(1), row.text(3)};
                bytes += event_cost(event.body);
                if (checksum({event.body}) == row.as<std::uint32_t>(2))
                    page.events.push_back(std::move(event));
                else
                    note_damaged(database_, "event", row.number(0));
            }
            return ++searched < events_searched && page.events.size() < most &&
                   bytes < event_bytes_in_an_answer;
        },
        after);
    return page;
}

// -- dead letters --

void EventTable::put(const PutDeadLetter& put) {
    const StoredEvent& event = put.letter.event;
    log_limited(spdlog::level::err, "the webhook rejects event {}: {}: {}", event.number,
                Quoted{put.letter.why}, Quoted{shown_body(event.body)});
    if (put.is_known) {
        refuse_again_.run(put.letter.failed, put.letter.why, event.number);
        return count_dead();
    }
    put_dead_.run(event.number, event.kind, put.letter.failed, put.letter.to_replay,
                  checksum({event.body}), put.letter.why, event.body);
    count_dead();
    if (next_.dead_letters <= most_dead_letters) return;
    drop_oldest_dead_.run();
    ++next_.lost;
    count_dead();
}

void EventTable::drop(DropDeadLetters& drop) {
    drop.found = static_cast<std::size_t>(drop_dead_.run(drop.number.value_or(0)));
    count_dead();
}

void EventTable::replay(ReplayDeadLetters& replay) {
    replay.found = static_cast<std::size_t>(replay_.run(replay.number.value_or(0)));
    count_dead();
}

void EventTable::count_dead() {
    count_dead_.each([&](const Row& row) {
        next_.dead_letters = row.as<std::size_t>(0);
        next_.to_replay = row.as<std::size_t>(1);
    });
}

std::vector<DeadLetter> EventTable::dead_letters(EventNumber after, bool to_replay,
                                                 std::size_t most) {
    std::vector<DeadLetter> found;
    std::size_t bytes = 0;
    list_dead_.each(
        [&](const Row& row) {
            DeadLetter letter{.event = {row.bits(0), row.as<std::uint8_t>(1), row.text(6)},
                              .failed = row.number(2),
                              .why = row.text(5),
                              .to_replay = row.number(3) != 0};
            bytes += event_cost(letter.event.body);
            if (checksum({letter.event.body}) != row.as<std::uint32_t>(4)) {
                note_damaged(database_, "dead_letter", row.number(0));
                letter.event.body.clear();
            }
            if (to_replay || !letter.event.body.empty()) found.push_back(std::move(letter));
            return found.size() < most && bytes < event_bytes_in_an_answer;
        },
        after, to_replay);
    return found;
}

// -- from any thread --

EventLogState EventTable::state() const {
    const std::lock_guard lock(mutex_);
    return shown_;
}

void EventTable::watch(std::function<void()> told) {
    const std::lock_guard lock(mutex_);
    watchers_.push_back(std::move(told));
}

}  // namespace pulsegate
