// Numbers of owners are given to one owner only, also when all have been given.
#include "server/store/ledger/owner_numbers.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/support/durable_cluster.h"
#include "tests/support/test_store.h"

using namespace pulsegate;

namespace {

constexpr OwnerId last_owner = std::numeric_limits<OwnerId>::max();

OwnerRange unused(const std::vector<OwnerId>& used) {
    UsedOwners owners;
    for (const OwnerId owner : used) owners.note(owner);
    return owners.unused();
}

const std::string new_session = hex(wire("20 r2 00 00"));
const std::string known_session = hex(wire("20 r2 01 00"));
const std::string unavailable = hex(wire("20 r2 00 03"));

/// The answer to the login.
std::string login(DurableCluster& brokers, PlainClient& client, bool clean = false) {
    client.connect(clean);
    brokers.settle();
    return client.take();
}

}  // namespace

TEST_CASE("numbers go up from the highest one until half of all are given") {
    CHECK(unused({}).first == 1);
    CHECK(unused({7, 5'000'000}).first == 5'000'001);
    CHECK(unused({7, 5'000'000}).last == last_owner);
}

TEST_CASE("from half of all numbers on, they go on in the largest gap") {
    const std::vector<std::vector<OwnerId>> all_used{
        {3'000'000'000},
        {last_owner},
        {1, 2, last_owner},
        {1, 1'000'000'000, last_owner},
        {1, 255, 256, 3'000'000'000, 3'500'000'000, last_owner - 1},
        {2'500'000'000},
    };
    for (const auto& used : all_used) {
        const OwnerRange range = unused(used);
        CAPTURE(used.back());
        CHECK(range.first > 0);
        CHECK(range.last <= last_owner);
        CHECK(range.size() > 1'400'000'000);
        for (const OwnerId owner : used) CHECK_FALSE((range.first <= owner && owner <= range.last));
    }
}

TEST_CASE("if every block of numbers is in use, none is given") {
    UsedOwners owners;
    for (std::uint64_t owner = 0; owner <= last_owner; owner += 256)
        owners.note(static_cast<OwnerId>(owner));
    owners.note(last_owner);
    const QuietLog quiet;
    OwnerNumbers numbers(owners.unused());
    CHECK(numbers.are_nearly_used_up());
    CHECK(numbers.next() == 0);
}

TEST_CASE("the last numbers of a range are kept for owners that can't be refused") {
    const QuietLog quiet;
    OwnerNumbers numbers({.first = last_owner - 3, .last = last_owner});
    CHECK_FALSE(numbers.are_nearly_used_up());
    CHECK(numbers.next() == last_owner - 3);
    CHECK_FALSE(numbers.are_nearly_used_up());
    CHECK(numbers.next() == last_owner - 2);
    CHECK(numbers.are_nearly_used_up());
    CHECK(numbers.next() == last_owner - 1);
    CHECK(numbers.next() == last_owner);
    for (int i = 0; i < 3; ++i) CHECK(numbers.next() == 0);
}

TEST_CASE("a restart counts ended owners that a message still mentions") {
    Store store(each_kind());
    commit(*store, {session(1), session(last_owner, "bob"), put(5, {1, last_owner})});
    commit(*store, {EndOwner{last_owner}});
    store.restart();
    const OwnerRange range = store.began().owners;
    CHECK(range.first > 1);
    CHECK(range.last < last_owner);
    CHECK(range.size() > 4'000'000'000);
}

TEST_CASE("after the highest number, a restart gives a new session a number of its own") {
    DurableCluster brokers;
    brokers->owners.use({.first = last_owner, .last = last_owner});
    PlainClient ann(brokers, "ann");
    REQUIRE(login(brokers, ann) == new_session);
    ann.send("82 r k1 s't' 01");
    ann.lose_connection();
    brokers.settle();
    brokers.crash();
    PlainClient bob(brokers, "bob");
    CHECK(login(brokers, bob) == new_session);
    bob.send("32 r s't' k1 'for ann'");
    bob.lose_connection();
    brokers.settle();
    brokers.crash();
    bob.connect(false);
    brokers.settle();
    CHECK(bob.take_messages().empty());
    ann.connect(false);
    brokers.settle();
    const auto messages = ann.take_messages();
    REQUIRE(messages.size() == 1);
    CHECK(messages[0].text == "for ann");
}

TEST_CASE("when numbers are nearly used up, only what needs a new one is refused") {
    DurableCluster brokers;
    brokers->owners.use({.first = 11, .last = 12});
    PlainClient ann(brokers, "ann");
    REQUIRE(login(brokers, ann) == new_session);
    PlainClient bob(brokers, "bob");
    CHECK(login(brokers, bob) == unavailable);
    CHECK(login(brokers, bob, true) == new_session);
    ann.lose_connection();
    CHECK(login(brokers, ann) == known_session);
    PlainClient carl(brokers, "carl", "carl", Version::v5_0);
    carl.connect(true, 0);
    brokers.settle();
    carl.take();
    carl.send("32 r s'inbox/nobody' k1 [ ] 'm'");
    brokers.settle();
    CHECK(carl.take() == hex(wire("40 03 k1 97")));
    carl.send("32 r s'inbox/ann' k2 [ ] 'm'");
    ann.lose_connection();  // so the message must be stored
    brokers.settle();
    CHECK(carl.take() == hex(wire("40 02 k2")));
}
