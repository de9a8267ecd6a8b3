#include "server/base/owner_thread.h"

#include <doctest/doctest.h>

#include <thread>
#include <type_traits>

using namespace pulsegate;

#ifdef NDEBUG

TEST_CASE("a release build does not check the thread of an object") {
    CHECK(std::is_empty_v<OwnerThread>);
}

#else

TEST_CASE("an object belongs to the thread that uses it first, for as long as that lives") {
    OwnerThread first;
    CHECK(first.is_here());
    CHECK(first.is_here());
    const OwnerThread second;
    std::thread([&] {
        CHECK_FALSE(first.is_here());
        CHECK(second.is_here());
        CHECK(second.is_here());
    }).join();
    CHECK(first.is_here());
    CHECK(second.is_here());
    std::thread([&] { CHECK_FALSE(second.is_here()); }).join();
}

#endif
