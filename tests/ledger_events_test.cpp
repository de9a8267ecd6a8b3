#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "server/shard/data_store.h"
#include "tests/support/quiet_log.h"
#include "tests/support/test_store.h"

using namespace pulsegate;

namespace {

constexpr std::uint32_t presence = 1;  // the bits of the kinds 0 and 3
constexpr std::uint32_t waiting = 8;

PutEvent event(std::uint8_t kind, std::string body = "{}") {
    return {.kind = kind, .body = std::move(body)};
}

EventPage read(Ledger& ledger, EventNumber after, std::uint32_t kinds, std::size_t most = 1000) {
    std::promise<EventPage> answered;
    ledger.read_events(after, kinds, most,
                       [&](Outcome, EventPage page) { answered.set_value(std::move(page)); });
    return answered.get_future().get();
}

std::vector<EventNumber> numbers(const EventPage& page) {
    std::vector<EventNumber> found;
    for (const StoredEvent& each : page.events) found.push_back(each.number);
    return found;
}

std::vector<DeadLetter> dead(Ledger& ledger, bool to_replay = false) {
    std::promise<std::vector<DeadLetter>> answered;
    ledger.list_dead_letters(0, to_replay, 100, [&](Outcome, std::vector<DeadLetter> found) {
        answered.set_value(std::move(found));
    });
    return answered.get_future().get();
}

/// One event takes 32 bytes and its body.
void put_events(Ledger& ledger, int count, std::size_t bytes = 68) {
    std::vector<Operation> operations;
    for (int i = 0; i < count; ++i) operations.push_back(event(0, std::string(bytes, 'x')));
    CHECK(commit(ledger, std::move(operations)) == Outcome::committed);
}

}  // namespace

TEST_CASE("events are numbered in the order of commits, from 1 on, also after a restart") {
    Store store(each_kind());
    CHECK(store->events().last == 0);
    commit(*store, {event(0), event(3)});
    commit(*store, {event(0)});
    CHECK(numbers(read(*store, 0, presence | waiting)) == std::vector<EventNumber>{1, 2, 3});
    const auto log = store->events().log;
    store.restart();
    CHECK(store->events().last == 3);
    CHECK(store->events().log == log);
    commit(*store, {event(0)});
    CHECK(numbers(read(*store, 3, presence)) == std::vector<EventNumber>{4});
}

TEST_CASE("numbers of events that a failover has lost are not used again") {
    const QuietLog quiet;
    Ledger::Visitor nobody;
    MemoryRows rows, older;
    SqliteLedger ledger({.rows = &rows});
    ledger.load(nobody);
    put_events(ledger, 5);
    for (const auto& [key, value] : rows.rows()) older.put(key, value);
    put_events(ledger, 2);
    EventLogState state;
    {
        SqliteLedger next({.rows = &older});
        next.load(nobody);
        CHECK(next.events().log == ledger.events().log);
        CHECK(next.events().last == 5);
        put_events(next, 2);
        state = next.events();
        CHECK(state.last - 1 > 7);
        CHECK(state.lost_after == 5);
        CHECK(state.lost_upto == state.last - 2);
        CHECK(numbers(read(next, 4, presence)) ==
              std::vector<EventNumber>{5, state.last - 1, state.last});
    }
    SqliteLedger again({.rows = &older});  // it was closed in order
    again.load(nobody);
    CHECK(again.events().lost_upto == state.lost_upto);
    put_events(again, 1);
    CHECK(again.events().last == state.last + 1);
}

TEST_CASE("a reader gets the kinds it asks for, and where to go on") {
    Store store(each_kind());
    commit(*store, {event(0), event(3), event(3), event(0), event(1)});
    const EventPage page = read(*store, 0, waiting, 1);
    CHECK(numbers(page) == std::vector<EventNumber>{2});
    CHECK(page.upto == 2);
    const EventPage rest = read(*store, 2, presence);
    CHECK(numbers(rest) == std::vector<EventNumber>{4});
    CHECK(rest.upto == 5);
    CHECK(read(*store, 5, presence).upto == 5);
}

TEST_CASE("the oldest events are deleted beyond the limit, and no number is given twice") {
    const QuietLog quiet;
    Store store(each_kind(), {.events = {.max_bytes = 1000}});
    for (int i = 0; i < 5; ++i) put_events(*store, 5);
    EventLogState state = store->events();
    CHECK(state.last == 25);
    CHECK(state.first == 16);
    CHECK(state.bytes == 1000);
    CHECK(state.lost == 0);  // no webhook wanted them
    CHECK(numbers(read(*store, 0, presence)).size() == 10);
    store.restart();
    CHECK(store->events().first == 16);
    CHECK(store->events().bytes == 1000);
    put_events(*store, 1, 5000);  // larger than the limit: it is the last, and stays
    state = store->events();
    CHECK(state.first == 26);
    CHECK(state.last == 26);
    store.restart();
    put_events(*store, 1);
    CHECK(store->events().last == 27);
    CHECK(store->events().first == 27);
}

TEST_CASE("the log of events may have a quarter of what may be stored, if nothing else is said") {
    constexpr std::size_t all = 1024 * 1024;
    const TemporaryFolder folder;
    DataStore store({.folder = folder.path("data"), .max_bytes = all});
    Ledger::Visitor nobody;
    store.ledger().load(nobody);
    for (int i = 0; i < 10; ++i) put_events(store.ledger(), 10, 5000);
    CHECK(store.ledger().events().bytes <= all / 4);
    CHECK(store.ledger().events().bytes > all / 5);
}

TEST_CASE(
    "when the store is nearly full, events are deleted before messages, and no more than needed") {
    const TemporaryFolder folder;
    SqliteLedger ledger({.folder = folder.path("data"), .fsync = Fsync::never});
    constexpr std::size_t all = 1024 * 1024;
    ledger.set_room(all, all / 2);
    Ledger::Visitor nobody;
    ledger.load(nobody);
    commit(ledger, {session(1)});
    for (int i = 0; i < 9; ++i) put_events(ledger, 10, 5000);
    const std::size_t before = ledger.events().bytes;
    CHECK(before > 400'000);
    std::vector<Stamp> stamps;
    for (Stamp stamp = 1; stamp <= 16; ++stamp) {
        commit(ledger, {put(stamp, {1}, std::string(40'000, 'x'))});
        stamps.push_back(stamp);
    }
    commit(ledger, {});
    CHECK(ledger.bytes() < all);
    CHECK(ledger.events().bytes < before * 3 / 4);
    CHECK(ledger.events().bytes > before / 5);
    CHECK(stored_of(ledger, stamps) == stamps);
    CHECK(ledger.close());
}

TEST_CASE("undelivered events of the webhook are counted when they are deleted") {
    const QuietLog quiet;
    Store store(each_kind(), {.events = {.max_bytes = 1000, .webhook_kinds = presence}});
    put_events(*store, 10);
    commit(*store, {EventDelivered{4}});
    commit(*store, {event(3, std::string(68, 'x'))});
    CHECK(store->events().lost == 0);  // 1 was delivered
    put_events(*store, 9);
    CHECK(store->events().first == 11);
    CHECK(store->events().lost == 6);
    put_events(*store, 10);
    CHECK(store->events().lost == 15);  // the one of another kind is none
}

TEST_CASE("a new webhook is told of what happens from now on, and goes on there") {
    Store without;
    commit(*without, {event(0), event(0)});
    CHECK(without->events().delivered == 0);
    Store store(each_kind(), {.events = {.webhook_kinds = presence}});
    CHECK(store->events().delivered == 0);
    commit(*store, {event(0), event(0), EventDelivered{1}});
    store.restart();
    CHECK(store->events().delivered == 1);
}

TEST_CASE("watchers are told of new events, and of events to replay") {
    const QuietLog quiet;
    Store store(each_kind());
    std::atomic<int> told = 0;
    store->watch_events([&] { ++told; });
    commit(*store, {session(1)});
    CHECK(told == 0);
    commit(*store, {event(0)});
    CHECK(told == 1);
    commit(*store, {PutDeadLetter{{.event = {1, 0, "{}"}, .why = "400"}}});
    CHECK(told == 1);
    commit(*store, {ReplayDeadLetters{}});
    CHECK(told == 2);
}

TEST_CASE("dead letters wait until they are dropped, and are replayed when that is asked for") {
    const QuietLog quiet;
    Store store(each_kind());
    commit(*store, {PutDeadLetter{{.event = {1, 0, "{}"}, .why = "400"}},
                    PutDeadLetter{{.event = {5, 3, "{}"}, .failed = 9, .why = "422"}}});
    store.restart();
    CHECK(store->events().dead_letters == 2);
    CHECK(dead(*store, true).empty());
    commit(*store, {ReplayDeadLetters{.number = 5}});
    REQUIRE(dead(*store, true).size() == 1);
    CHECK(dead(*store, true)[0].why == "422");
    CHECK(store->events().to_replay == 1);
    commit(*store, {PutDeadLetter{{.event = {5, 3, "{}"}, .why = "again"}}});
    CHECK(store->events().to_replay == 0);
    CHECK(dead(*store)[1].why == "again");
    commit(*store, {DropDeadLetters{.number = 1}});
    CHECK(dead(*store).size() == 1);
    commit(*store, {DropDeadLetters{}});
    CHECK(dead(*store).empty());
}

TEST_CASE("a dead letter that is dropped while it is replayed stays away") {
    const QuietLog quiet;
    Store store(each_kind());
    const DeadLetter letter{.event = {5, 3, "{}"}, .failed = 9, .why = "422"};
    commit(*store, {PutDeadLetter{letter}, ReplayDeadLetters{}});
    const DeadLetter again{.event = {5, 3, "{}"}, .failed = 10, .why = "400"};
    commit(*store, {PutDeadLetter{again, true}});
    REQUIRE(dead(*store).size() == 1);
    CHECK(dead(*store)[0].why == "400");
    CHECK(dead(*store)[0].failed == 10);
    CHECK(store->events().to_replay == 0);
    commit(*store, {DropDeadLetters{}});
    commit(*store, {PutDeadLetter{again, true}});
    CHECK(dead(*store).empty());
    CHECK(store->events().dead_letters == 0);
}

TEST_CASE("a damaged dead letter is not listed, but a replay reports it") {
    const QuietLog quiet;
    Store store;
    commit(*store, {PutDeadLetter{{.event = {1, 0, "{\"a\":1}"}}},
                    PutDeadLetter{{.event = {2, 0, "{\"b\":1}"}}}, ReplayDeadLetters{}});
    store.run("UPDATE dead_letter SET body = replace(body, 'a', 'c')");
    CHECK(dead(*store).size() == 1);
    REQUIRE(dead(*store, true).size() == 2);
    CHECK(dead(*store, true)[0].event.body.empty());
}

TEST_CASE("events wait for the webhook that are of its kinds, kept and not delivered") {
    const QuietLog quiet;
    Store store(each_kind(), {.events = {.max_bytes = 1000, .webhook_kinds = presence}});
    put_events(*store, 3);
    commit(*store, {event(3), event(0)});
    CHECK(store->events().waiting == 4);
    commit(*store, {EventDelivered{2}});
    CHECK(store->events().waiting == 2);
    store.restart();
    CHECK(store->events().waiting == 2);
    commit(*store, {EventDelivered{4}, event(0), EventDelivered{5}});
    CHECK(store->events().waiting == 1);
    put_events(*store, 20);
    CHECK(store->events().waiting == 10);  // the others are lost
    commit(*store, {EventDelivered{store->events().last}});
    CHECK(store->events().waiting == 0);
}

TEST_CASE("how many dead letters an operation has found is its answer") {
    const QuietLog quiet;
    Store store(each_kind());
    commit(*store,
           {PutDeadLetter{{.event = {1, 0, "{}"}}}, PutDeadLetter{{.event = {2, 0, "{}"}}}});
    std::promise<std::vector<std::size_t>> answered;
    store->submit(
        {{ReplayDeadLetters{}, DropDeadLetters{.number = 2}, DropDeadLetters{.number = 7}},
         [&](Outcome, const std::vector<Operation>& done) {
             answered.set_value({std::get<ReplayDeadLetters>(done[0]).found,
                                 std::get<DropDeadLetters>(done[1]).found,
                                 std::get<DropDeadLetters>(done[2]).found});
         }});
    CHECK(answered.get_future().get() == std::vector<std::size_t>{2, 1, 0});
}

TEST_CASE("an event with a flipped bit is left out") {
    const QuietLog quiet;
    Store store;
    commit(*store, {event(0, "{\"a\":1}"), event(0, "{\"b\":2}")});
    store.run("UPDATE event SET body = replace(body, 'a', 'c')");
    CHECK(numbers(read(*store, 0, presence)) == std::vector<EventNumber>{2});
}

TEST_CASE("what is stored is not handed in again, though the log can't be rewritten") {
    const QuietLog quiet;
    Store store({.patience = std::chrono::milliseconds(20)});
    store.disk().fail_at(0, FaultyDisk::Fault::sync_error, 3);
    store.break_database();
    std::promise<void> answered;
    store->submit({{CancelDelayed{.user = "ann", .name = "x", .is_promised = true},
                    PutEvent{.kind = 1, .body = "{}", .is_promised = true}},
                   [&](Outcome outcome, std::vector<Operation>& operations) {
                       CHECK(outcome == Outcome::refused);
                       CHECK_FALSE(std::get<CancelDelayed>(operations.at(0)).is_promised);
                       CHECK_FALSE(std::get<PutEvent>(operations.at(1)).is_promised);
                       answered.set_value();
                   }});
    answered.get_future().get();
    store.disk().mend();
    while (commit(*store, {}) == Outcome::refused) {
    }
    CHECK(store->events().last == 1);
}
