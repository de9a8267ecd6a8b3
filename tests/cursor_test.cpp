#include "server/store/tables/cursor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "server/store/rows/row_codec.h"

using namespace pulsegate;

namespace {

Cursor stored_and_read(const Cursor& cursor) {
    const CursorRow row = encode_cursor(cursor);
    return decode_cursor(row.upto, row.beyond);
}

}  // namespace

TEST_CASE("a cursor knows what came late, or came back") {
    Cursor cursor{.upto = 9, .exceptions = {12}};
    cursor.reopen(6);
    CHECK(cursor == Cursor{.upto = 9, .exceptions = {6, 12}});
    CHECK_FALSE(cursor.has_done(6));
    CHECK(cursor.has_done(7));
    CHECK(cursor.has_done(12));
    cursor.reopen(12);
    CHECK_FALSE(cursor.has_done(12));
    cursor.reopen(8);
    cursor.add({.beyond = {6, 15}});
    CHECK(cursor == Cursor{.upto = 9, .exceptions = {8, 15}});
    cursor.add({.upto = 8, .beyond = {12}});
    CHECK(cursor == Cursor{.upto = 9, .exceptions = {12, 15}});
    cursor.add({.upto = 12});
    CHECK(cursor == Cursor{.upto = 12, .exceptions = {15}});
}

TEST_CASE("a cursor is read as it was stored") {
    std::mt19937 random(1);
    for (int round = 0; round < 1000; ++round) {
        std::set<Stamp> exceptions;
        for (auto count = random() % 6; count > 0; --count) exceptions.insert(1 + random() % 12);
        const Cursor cursor{.upto = random() % 13,
                            .exceptions = {exceptions.begin(), exceptions.end()}};
        REQUIRE(stored_and_read(cursor) == cursor);
        const Cursor later{.upto = cursor.upto + 1'900'000'000'000'000'000,
                           .exceptions = cursor.exceptions};
        REQUIRE(stored_and_read(later) == later);
    }
}

TEST_CASE("a cursor without early messages is stored as earlier programs did") {
    const CursorRow row = encode_cursor({.upto = 9, .exceptions = {12, 15}});
    CHECK(row.upto == 9);
    CHECK(row.beyond == encode_stamps({12, 15}));
}

TEST_CASE("an earlier program takes no message for done that is waited for") {
    const CursorRow row = encode_cursor({.upto = 12, .exceptions = {5, 9, 15}});
    CHECK(row.upto == 4);
    const auto done = decode_stamps(row.beyond);
    CHECK(done.front() == 15);
    for (const Stamp waited_for : {5, 9, 13, 14, 16})
        CHECK_FALSE(std::ranges::binary_search(done, waited_for));
}

TEST_CASE("what an earlier program has done with a cursor counts") {
    const CursorRow row = encode_cursor({.upto = 12, .exceptions = {5, 9, 15}});
    auto beyond = decode_stamps(row.beyond);
    CHECK(decode_cursor(6, row.beyond) == Cursor{.upto = 6, .exceptions = {15}});
    beyond.insert(beyond.begin(), 9);
    CHECK(decode_cursor(row.upto, encode_stamps(beyond)) ==
          Cursor{.upto = 12, .exceptions = {5, 15}});
}
