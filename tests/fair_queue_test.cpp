#include "server/limits/fair_queue.h"

#include <doctest/doctest.h>

#include <boost/asio/ip/address.hpp>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/addresses.h"

using namespace pulsegate;

namespace {

using Ticket = FairQueue::Ticket;
using Tickets = std::vector<Ticket>;

Tickets drained(FairQueue& queue) {
    Tickets all;
    while (const auto ticket = queue.take_first()) all.push_back(*ticket);
    return all;
}

}  // namespace

TEST_CASE("a thousand items of one address hold up an item of another address by one turn") {
    FairQueue queue;
    for (Ticket ticket = 1; ticket <= 1000; ++ticket) queue.add(address(1), "mallory", ticket);
    queue.add(address(2), "alice", 1001);
    CHECK(queue.take_first() == 1);
    CHECK(queue.take_first() == 1001);
    CHECK(queue.take_first() == 2);
    CHECK(queue.size() == 998);
}

TEST_CASE("the users of one address take turns, and this gains the address no turn") {
    FairQueue queue;
    for (Ticket ticket = 1; ticket <= 3; ++ticket) queue.add(address(1), "mallory", ticket);
    queue.add(address(1), "alice", 4);
    for (Ticket ticket = 5; ticket <= 6; ++ticket) queue.add(address(2), "bob", ticket);
    CHECK(drained(queue) == Tickets{1, 5, 4, 6, 2, 3});
}

TEST_CASE("when too many wait, an item of the largest address and its largest user goes") {
    FairQueue queue;
    for (Ticket ticket = 1; ticket <= 4; ++ticket) queue.add(address(1), "mallory", ticket);
    queue.add(address(1), "alice", 5);
    queue.add(address(2), "bob", 6);
    CHECK(queue.take_last() == 4);
    CHECK(queue.take_last() == 3);
    CHECK(queue.take_last() == 2);
    CHECK(queue.contains(5));
    CHECK(drained(queue) == Tickets{1, 6, 5});
    CHECK_FALSE(queue.take_last());
}

TEST_CASE("a removed item leaves its turn to the others of its address") {
    FairQueue queue;
    for (Ticket ticket = 1; ticket <= 3; ++ticket) queue.add(address(1), "alice", ticket);
    queue.add(address(2), "bob", 4);
    queue.remove(1);
    queue.remove(1);
    CHECK_FALSE(queue.contains(1));
    CHECK(drained(queue) == Tickets{2, 4, 3});
}

TEST_CASE("while items come and go, each is taken once, and none is passed over for ever") {
    std::mt19937 random(11);
    FairQueue queue;
    struct Place {
        std::uint32_t address;
        std::uint32_t user;
        auto operator<=>(const Place&) const = default;
    };
    std::map<Ticket, Place> waiting;
    std::map<std::uint32_t, unsigned> passed_over;  // by address
    Ticket last = 0;
    for (int step = 0; step < 30'000; ++step) {
        const Place place{static_cast<std::uint32_t>(random() % 10),
                          static_cast<std::uint32_t>(random() % 5)};
        const auto choice = random() % 12;
        if (choice < 6) {
            queue.add(address(place.address), std::to_string(place.user), ++last);
            waiting.emplace(last, place);
        } else if (choice == 6 && !waiting.empty()) {
            const auto any =
                std::next(waiting.begin(), static_cast<std::ptrdiff_t>(random() % waiting.size()));
            queue.remove(any->first);
            waiting.erase(any);
        } else if (choice == 7) {
            const auto ticket = queue.take_last();
            REQUIRE(ticket.has_value() == !waiting.empty());
            if (ticket) REQUIRE(waiting.erase(*ticket) == 1);
        } else {
            const auto ticket = queue.take_first();
            REQUIRE(ticket.has_value() == !waiting.empty());
            if (!ticket) continue;
            const Place served = waiting.at(*ticket);
            waiting.erase(*ticket);
            // For one user at one address, the first ticket is served first.
            for (const auto& [other, where] : waiting)
                if (where == served) REQUIRE(other > *ticket);
            for (auto& [other, times] : passed_over)
                times = other == served.address ? 0 : times + 1;
        }
        std::set<std::uint32_t> present;
        for (const auto& [ticket, where] : waiting) present.insert(where.address);
        for (std::uint32_t each = 0; each < 10; ++each) {
            if (!present.contains(each)) passed_over[each] = 0;
            REQUIRE(passed_over[each] <= 2 * 10);
        }
        REQUIRE(queue.size() == waiting.size());
    }
}
