#include "server/store/waiting_index.h"

#include <doctest/doctest.h>

#include <vector>

using namespace pulsegate;

namespace {

constexpr OwnerId ann = 1;
constexpr OwnerId bob = 2;
using Stamps = std::vector<Stamp>;

/// An index of two owners who wait for the messages 1 to 5.
WaitingIndex filled() {
    WaitingIndex index;
    index.add_owner(ann);
    index.add_owner(bob);
    for (Stamp stamp = 1; stamp <= 5; ++stamp)
        index.add_message(stamp, {{.owner = ann}, {.owner = bob}});
    return index;
}

}  // namespace

TEST_CASE("a message is dead when its last receiver is done with it or has ended") {
    WaitingIndex index = filled();
    index.set_cursor(ann, {.upto = 2, .beyond = {4}});
    CHECK(index.dead().empty());
    index.set_cursor(bob, {.upto = 1, .beyond = {4, 5}});
    CHECK(index.dead() == Stamps{1, 4});
    index.end_owner(ann);
    CHECK(index.dead() == Stamps{1, 4, 5});
    CHECK(index.is_waited_for(2));
    index.forget_dead(2);
    CHECK(index.dead() == Stamps{5});
}

TEST_CASE("a cursor rises over what is done one by one, as far as nothing waits between") {
    WaitingIndex index = filled();
    index.set_cursor(ann, {.upto = 0, .beyond = {1, 2, 4}});
    CHECK(*index.cursor(ann) == Cursor{.upto = 2, .beyond = {4}});
    CHECK(index.done_upto() == 2);
    index.set_cursor(ann, {.upto = 2, .beyond = {3, 4, 5, 9}});
    CHECK(*index.cursor(ann) == Cursor{.upto = 9});
    CHECK(index.done_upto() == 9);
}

TEST_CASE("a cursor that comes from the disk stays as it was until it is known who waits") {
    WaitingIndex index;
    index.add_owner(ann, {.upto = 1, .beyond = {4}});
    CHECK(*index.cursor(ann) == Cursor{.upto = 1, .beyond = {4}});
    index.add_message(4, {{.owner = ann}});
    CHECK(index.dead() == Stamps{4});
}

TEST_CASE("a message for nobody who is known is dead at once") {
    WaitingIndex index = filled();
    index.end_owner(bob);
    index.add_message(6, {{.owner = bob}, {.owner = 77}});
    CHECK(index.dead() == Stamps{6});
    CHECK(index.cursor(bob) == nullptr);
}

TEST_CASE("a receiver that is named twice waits once") {
    WaitingIndex index = filled();
    index.add_message(6, {{.owner = ann}});
    index.add_message(6, {{.owner = ann}});
    index.set_cursor(ann, {.upto = 6});
    CHECK(index.dead() == Stamps{6});
}

TEST_CASE("a cursor that is opened again keeps what was done beyond") {
    Cursor cursor{.upto = 9, .beyond = {12}};
    cursor.reopen(6, {7, 9});
    CHECK(cursor == Cursor{.upto = 5, .beyond = {7, 9, 12}});
    CHECK_FALSE(cursor.has_done(6));
    CHECK(cursor.has_done(7));
    cursor.add({.upto = 7, .beyond = {15}});
    CHECK(cursor == Cursor{.upto = 7, .beyond = {9, 12, 15}});
}
