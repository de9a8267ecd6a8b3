#include "server/store/tables/waiting_index.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

using namespace pulsegate;

namespace {

constexpr OwnerId ann = 1;
constexpr OwnerId bob = 2;
using Stamps = std::vector<Stamp>;

/// An index of two owners that wait for the messages 1 to 5.
WaitingIndex filled() {
    WaitingIndex index;
    index.add_owner(ann);
    index.add_owner(bob);
    for (Stamp stamp = 1; stamp <= 5; ++stamp)
        index.add_message(stamp, {{.owner = ann}, {.owner = bob}});
    return index;
}

/// What the index says, in the plainest form: the owners that wait for each message.
struct PlainIndex {
    std::map<OwnerId, std::set<Stamp>> waiting{};
    Stamps dead{};

    bool is_waited_for(Stamp stamp) const {
        return std::ranges::any_of(waiting,
                                   [&](const auto& each) { return each.second.contains(stamp); });
    }
    void add(Stamp stamp, const std::vector<Receiver>& receivers) {
        for (const Receiver& each : receivers)
            if (const auto owner = waiting.find(each.owner); owner != waiting.end())
                owner->second.insert(stamp);
        if (!is_waited_for(stamp)) dead.push_back(stamp);
    }
    void done(OwnerId owner, Stamp stamp) {
        if (waiting[owner].erase(stamp) == 1 && !is_waited_for(stamp)) dead.push_back(stamp);
    }
    void end(OwnerId owner) {
        for (const Stamp stamp : std::exchange(waiting[owner], {}))
            if (!is_waited_for(stamp)) dead.push_back(stamp);
        waiting.erase(owner);
    }
};

/// Says that the owner is done with some of the messages up to `last` that it waits for.
void finish_some(OwnerId owner, Stamp last, WaitingIndex& index, PlainIndex& model,
                 std::minstd_rand& random) {
    Cursor cursor = *index.cursor(owner);
    const auto waiting = model.waiting.at(owner);
    const Stamp upto = random() % (last + 1);
    Done done{.owner = owner, .upto = std::max(cursor.upto, upto), .beyond = {}};
    for (const Stamp stamp : waiting)
        if (stamp <= done.upto || random() % 3 == 0) {
            model.done(owner, stamp);
            if (stamp > done.upto) done.beyond.push_back(stamp);
        }
    cursor.add(done);
    index.set_cursor(owner, cursor);
}

}  // namespace

TEST_CASE("a message is dead when its last receiver is done with it or has ended") {
    WaitingIndex index = filled();
    index.set_cursor(ann, {.upto = 2, .exceptions = {4}});
    CHECK(index.dead().empty());
    index.set_cursor(bob, {.upto = 1, .exceptions = {4, 5}});
    CHECK(index.dead() == Stamps{1, 4});
    index.end_owner(ann);
    CHECK(index.dead() == Stamps{1, 4, 5});
    CHECK(index.is_waited_for(2));
    index.forget_dead(2);
    CHECK(index.dead() == Stamps{5});
}

TEST_CASE("a cursor rises over what is done one by one, as far as nothing waits between") {
    WaitingIndex index = filled();
    index.set_cursor(ann, {.upto = 0, .exceptions = {1, 2, 4}});
    CHECK(*index.cursor(ann) == Cursor{.upto = 2, .exceptions = {4}});
    CHECK(index.latest_done() == 4);
    index.set_cursor(ann, {.upto = 2, .exceptions = {3, 4, 5, 9}});
    CHECK(*index.cursor(ann) == Cursor{.upto = 9});
    CHECK(index.latest_done() == 9);
}

TEST_CASE("a cursor from the disk stays as it was until the waiting messages are known") {
    WaitingIndex index;
    index.add_owner(ann, {.upto = 1, .exceptions = {4}});
    CHECK(*index.cursor(ann) == Cursor{.upto = 1, .exceptions = {4}});
    CHECK_FALSE(index.is_due(ann, 1));
    CHECK(index.is_due(ann, 3));
    CHECK_FALSE(index.is_due(ann, 4));
    CHECK_FALSE(index.is_due(bob, 3));
    index.add_message(3, {{.owner = ann}});
    index.set_cursor(ann, {.upto = 1, .exceptions = {4}});
    CHECK(*index.cursor(ann) == Cursor{.upto = 1, .exceptions = {4}});
}

TEST_CASE("what is done while an older message waits is forgotten with its message") {
    WaitingIndex index;
    index.add_owner(ann);
    index.add_owner(bob);
    index.add_message(1, {{.owner = ann}});
    const auto done = [&](Stamp stamp) {
        Cursor cursor = *index.cursor(ann);
        cursor.add({.owner = ann, .beyond = {stamp}});
        index.set_cursor(ann, std::move(cursor));
    };
    Stamp last = 1;
    while (last < 10'000) {
        index.add_message(++last, {{.owner = ann}});
        done(last);
        if (last % 10 == 0) index.forget_dead(index.dead().size());
    }
    CHECK(index.cursor(ann)->upto == 0);
    CHECK(index.cursor(ann)->exceptions.size() < 200);

    while (last < 10'500) {  // somebody else waits for these
        index.add_message(++last, {{.owner = ann}, {.owner = bob}});
        done(last);
    }
    while (last < 11'000) {  // and these are not deleted yet
        index.add_message(++last, {{.owner = ann}});
        done(last);
    }
    for (Stamp stamp = 10'001; stamp <= 11'000; ++stamp)
        REQUIRE(index.cursor(ann)->has_done(stamp));
    CHECK(index.is_due(ann, 1));
    index.set_cursor(ann, {.upto = 11'000});
    CHECK(*index.cursor(ann) == Cursor{.upto = 11'000});
}

TEST_CASE("a message without a known receiver is dead at once") {
    WaitingIndex index = filled();
    index.end_owner(bob);
    index.add_message(6, {{.owner = bob}, {.owner = 77}});
    CHECK(index.dead() == Stamps{6});
    CHECK_FALSE(index.cursor(bob));
}

TEST_CASE("a receiver that is named twice waits once") {
    WaitingIndex index = filled();
    index.add_message(6, {{.owner = ann}});
    index.add_message(6, {{.owner = ann}});
    index.set_cursor(ann, {.upto = 6});
    CHECK(index.dead() == Stamps{6});
}

TEST_CASE("a cursor rises while a message waits that came late") {
    WaitingIndex index = filled();
    index.set_cursor(ann, {.upto = 5});
    index.add_message(2, {{.owner = ann}});
    index.set_cursor(ann, {.upto = 5, .exceptions = {2}});
    index.add_message(6, {{.owner = ann}});
    CHECK(index.is_due(ann, 2));
    CHECK_FALSE(index.is_due(ann, 3));
    index.set_cursor(ann, {.upto = 5, .exceptions = {2, 6}});
    CHECK(*index.cursor(ann) == Cursor{.upto = 6, .exceptions = {2}});
    CHECK(index.dead() == Stamps{6});
    index.set_cursor(bob, {.upto = 5});
    CHECK(index.dead() == Stamps{6, 1, 3, 4, 5});
    index.set_cursor(ann, {.upto = 6});
    CHECK(index.dead() == Stamps{6, 1, 3, 4, 5, 2});
}

TEST_CASE("the index agrees with a plain model while owners and messages come and go") {
    constexpr OwnerId owners = 6;
    std::minstd_rand random(7);
    WaitingIndex index;
    PlainIndex model;
    for (Stamp stamp = 1; stamp <= 3'000; ++stamp) {
        const auto owner = static_cast<OwnerId>(1 + random() % owners);
        const bool is_known = model.waiting.contains(owner);
        REQUIRE(index.is_owner(owner) == is_known);
        if (!is_known) {
            index.add_owner(owner);
            model.waiting[owner];
        } else if (random() % 50 == 0) {
            index.end_owner(owner);
            model.end(owner);
        } else if (random() % 4 == 0) {
            finish_some(owner, stamp - 1, index, model, random);
        }
        std::vector<Receiver> receivers;
        for (OwnerId each = 1; each <= owners; ++each)
            if (random() % 3 == 0) receivers.push_back({.owner = each});
        index.add_message(stamp, receivers);
        model.add(stamp, receivers);

        const Stamp some = 1 + random() % stamp;
        const auto old_one = model.waiting.find(owner);
        if (old_one != model.waiting.end() && random() % 5 == 0) {  // it comes late, or again
            Cursor cursor = *index.cursor(owner);
            if (cursor.has_done(some)) cursor.reopen(some);
            index.add_message(some, {{.owner = owner}});
            index.set_cursor(owner, std::move(cursor));
            model.add(some, {{.owner = owner}});
        }
        REQUIRE(index.is_waited_for(some) == model.is_waited_for(some));
        const auto waits = model.waiting.find(owner);
        if (waits != model.waiting.end() && waits->second.contains(some))
            REQUIRE(index.is_due(owner, some));
    }
    Stamps dead = index.dead();
    std::ranges::sort(dead);
    std::ranges::sort(model.dead);
    CHECK(dead.size() > 1'000);
    CHECK(dead == model.dead);
}

TEST_CASE("what a crowd of messages took is given back when they are deleted") {
    WaitingIndex index;
    constexpr OwnerId owners = 5000;
    for (OwnerId owner = 1; owner <= owners; ++owner) index.add_owner(owner);
    constexpr Stamp last = 200'000;
    for (Stamp stamp = 1; stamp <= last; ++stamp) {
        const auto owner = static_cast<OwnerId>(stamp % (owners - 1)) + 1;
        index.add_message(stamp, {{.owner = owner}, {.owner = owner + 1}});
    }
    CHECK(index.room() > 2 * last);
    for (OwnerId owner = 1; owner <= owners; ++owner) index.end_owner(owner);
    CHECK(index.dead().size() == last);
    index.forget_dead(last);
    CHECK(index.room() < last / 10);
    CHECK_FALSE(index.is_waited_for(1));
}
