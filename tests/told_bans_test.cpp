// Edges tell their home of the bans that they set, and the home tells them of lifts.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "server/limits/address_limits.h"
#include "server/limits/lifted_bans.h"
#include "tests/support/addresses.h"

using namespace pulsegate;

namespace {

constexpr Millis told_ban_time = 1000;

/// What ForwardedClients and EdgeChannels do for bans, with queues in place of the link.
struct ToldNode {
    struct Told {
        Address address;
        Millis left;
        std::uint32_t lifts_known;
    };

    AddressLimits limits{{.ban_failures = 1, .ban_time = told_ban_time}};
    std::uint32_t lifts_known = 0;
    std::deque<Told> to_home{};
    std::deque<BanLift> to_edge{};

    void tell(const Address& banned) {
        if (const auto left = limits.ban_left(banned, 0))
            to_home.push_back({banned, *left, lifts_known});
    }
    void begin_link(AddressLimits& home) {
        to_home.clear();
        to_edge.clear();
        lifts_known = 0;
        for (const Ban& ban : limits.bans(0)) tell(*Address::parse(ban.address));
        for (const BanLift& lift : home.lifts(0)) to_edge.push_back(lift);
    }
    bool deliver_to_home(AddressLimits& home) {
        if (to_home.empty()) return false;
        const Told told = to_home.front();
        to_home.pop_front();
        home.hear_ban(told.address, told.left, told.lifts_known, 0);
        return true;
    }
    bool deliver_to_edge() {
        if (to_edge.empty()) return false;
        lifts_known = std::max(lifts_known, to_edge.front().number);
        static_cast<void>(limits.lift_ban(to_edge.front().address, 0));
        to_edge.pop_front();
        return true;
    }
};

}  // namespace

TEST_CASE("addresses that mean another machine to each node are local") {
    for (const char* local : {"127.0.0.1", "::1", "fe80::7", "::ffff:127.0.0.1", "169.254.1.2"})
        CHECK(Address::parse(local)->is_local());
    for (const char* other : {"127.0.0.2", "10.0.0.7", "2001:db8::1", "fd00::1"})
        CHECK_FALSE(Address::parse(other)->is_local());
}

TEST_CASE("a ban that an edge tells holds until it ends, and is listed like one of this node") {
    AddressLimits home({.ban_failures = 1, .ban_time = told_ban_time});
    const Address banned = address(1);
    CHECK(home.hear_ban(banned, 500, 0, 100));
    const auto cause = home.banned(banned, 599);
    REQUIRE(cause);
    CHECK_FALSE(cause->ordered);
    REQUIRE(home.bans(100).size() == 1);
    CHECK(home.bans(100).front().left == 500);
    CHECK(home.ban_left(banned, 100) == 500);
    CHECK_FALSE(home.banned(banned, 600));
    CHECK_FALSE(home.ban_left(banned, 600));
    CHECK(home.hear_ban(banned, 1, 0, 600));
}

TEST_CASE("of two bans of an address, the longer one counts, and is news for the other edges") {
    AddressLimits home({.ban_time = told_ban_time});
    const Address banned = address(1);
    CHECK(home.hear_ban(banned, 500, 0, 100));
    CHECK_FALSE(home.hear_ban(banned, 10, 0, 100));
    CHECK_FALSE(home.hear_ban(banned, 1'499, 0, 100));  // the same one, told again
    CHECK(home.ban_left(banned, 100) == 500);
    CHECK(home.hear_ban(banned, 1'500, 0, 100));
    CHECK(home.ban_left(banned, 100) == 1'500);
    CHECK(home.bans(100).size() == 1);
}

TEST_CASE("a ban by the administrator stays as it is when an edge tells a longer one") {
    AddressLimits home({.ban_time = told_ban_time});
    const Address banned = address(1);
    REQUIRE(home.order_ban(banned, 0, 100, "spam"));
    CHECK_FALSE(home.hear_ban(banned, 900, 0, 50));
    CHECK(home.ban_left(banned, 50) == 50);
    CHECK(home.banned(banned, 50)->reason == "spam");
    CHECK(home.hear_ban(banned, 900, 0, 100));
}

TEST_CASE("clients of edges can't make the home keep more than so many bans") {
    AddressLimits home({.ban_time = told_ban_time});
    const auto most = static_cast<unsigned>(most_ordered_bans);
    for (unsigned number = 0; number < most; ++number)
        REQUIRE(home.hear_ban(address(number), 1000, 0, 0));
    CHECK_FALSE(home.hear_ban(address(most), 1000, 0, 0));
    CHECK_FALSE(home.banned(address(most), 0));
    CHECK(home.banned(address(0), 999));
    CHECK(home.order_ban(address(most), 0, 1000, ""));         // has room of its own
    CHECK(home.hear_ban(address(most + 1), 1000, 0, 61'000));  // the others have ended
    CHECK(home.bans(61'000).size() == 1);
}

TEST_CASE("a ban that was lifted before the edge heard of it does not come back") {
    AddressLimits home({.ban_time = told_ban_time});
    const Address one = address(1), other = address(2);
    CHECK(home.hear_ban(one, 900, 0, 0));
    const auto first = home.lift_everywhere(one, 10);
    CHECK(first.was_banned);
    CHECK(first.lift.number == 1);
    const auto second = home.lift_everywhere(other, 20);  // is on its way from the edge
    CHECK_FALSE(second.was_banned);
    CHECK(second.lift.number == 2);
    CHECK_FALSE(home.hear_ban(one, 900, 0, 30));
    CHECK_FALSE(home.hear_ban(other, 900, 1, 30));
    CHECK(home.bans(30).empty());
    CHECK(home.hear_ban(one, 900, 1, 30));  // the edge has set it since it heard of the lift
    REQUIRE(home.lifts(30).size() == 2);
    CHECK(home.lifts(30).back().address == other);
    CHECK(home.lifts(10 + told_ban_time).size() == 2);
    CHECK(home.lifts(11 + told_ban_time).size() == 1);
    CHECK(home.lifts(21 + told_ban_time).empty());  // no ban is older
    CHECK(home.hear_ban(other, 900, 0, 21 + told_ban_time));
}

TEST_CASE("an edge keeps the bans of its home until a new link has told all bans") {
    AddressLimits edge({.ban_time = told_ban_time});
    const Address kept = address(1), gone = address(2), lifted = address(3), fresh = address(4);
    edge.begin_home_bans();
    edge.hear_home_ban(kept, for_good, true, 0);
    edge.hear_home_ban(gone, 500, false, 0);
    edge.hear_home_ban(lifted, for_good, true, 0);
    edge.end_home_bans();
    CHECK(edge.banned(kept, 1'000'000)->ordered);
    CHECK_FALSE(edge.banned(gone, 499)->ordered);
    CHECK_FALSE(edge.banned(gone, 500));

    edge.begin_home_bans();
    edge.hear_home_ban(kept, 50, false, 100);
    edge.hear_home_ban(fresh, 50, false, 100);
    CHECK(edge.lift_ban(lifted, 100));
    CHECK(edge.banned(gone, 100));
    CHECK_FALSE(edge.banned(kept, 100)->ordered);  // the home has the last word
    edge.begin_home_bans();  // the link has ended before the list was complete
    CHECK(edge.banned(fresh, 100));
    edge.hear_home_ban(kept, 50, false, 100);
    edge.end_home_bans();
    CHECK(edge.banned(kept, 149));
    CHECK_FALSE(edge.banned(kept, 150));
    for (const Address& each : {gone, lifted, fresh}) CHECK_FALSE(edge.banned(each, 100));
}

TEST_CASE("the bans of a home are none of the edge's own") {
    AddressLimits edge({.ban_failures = 1, .ban_time = told_ban_time});
    const Address own = address(1), other = address(2);
    edge.begin_home_bans();
    edge.hear_home_ban(other, 900, false, 0);
    edge.end_home_bans();
    CHECK_FALSE(edge.failed(other, 1, 0));  // it is banned already
    CHECK(edge.failed(own, 1, 0));
    REQUIRE(edge.bans(0).size() == 1);
    CHECK_FALSE(edge.ban_left(other, 0));
    edge.hear_home_ban(own, 900, false, 0);
    edge.forget_home_bans();
    CHECK_FALSE(edge.banned(other, 0));
    CHECK(edge.banned(own, 0));
    edge.hear_home_ban(own, 10, true, 0);  // the administrator has shortened it
    CHECK(edge.bans(0).empty());
    CHECK_FALSE(edge.banned(own, 10));
}

TEST_CASE("an edge keeps no more bans of its home than a home can have by orders and by edges") {
    AddressLimits edge({});
    const auto most = static_cast<unsigned>(2 * most_ordered_bans);
    for (unsigned number = 0; number <= most; ++number)
        edge.hear_home_ban(address(number), 1000, false, 0);
    CHECK(edge.banned(address(most - 1), 0));
    CHECK_FALSE(edge.banned(address(most), 0));
    edge.hear_home_ban(address(0), 2000, false, 0);
    CHECK(edge.banned(address(0), 1999));
}

TEST_CASE("only the latest lifts are remembered, and the latest one of each address counts") {
    LiftedBans lifted;
    for (unsigned number = 0; number < LiftedBans::most; ++number)
        lifted.add(address(number), number);
    CHECK(lifted.add(address(1), 10'000).number == 10'001);
    CHECK(lifted.all().size() == LiftedBans::most);
    CHECK(lifted.number_of(address(0)) == 0);
    CHECK(lifted.number_of(address(1)) == 10'001);
    CHECK(lifted.number_of(address(2)) == 3);
    lifted.forget(2);
    CHECK(lifted.number_of(address(1)) == 10'001);
    CHECK(lifted.all().front().lift.number == 3);
    lifted.forget(10'001);
    CHECK(lifted.all().empty());
    CHECK(lifted.number_of(address(1)) == 0);
}

TEST_CASE("however bans, lifts and lost links cross, an edge and its home agree in the end") {
    std::mt19937 random(13);
    int lifted_late = 0;
    for (int play = 0; play < 300; ++play) {
        AddressLimits home({.ban_time = told_ban_time});
        std::vector<ToldNode> edges(2);
        std::uint64_t guess = 0;
        const bool are_links_lost = play % 2 == 0;
        for (int step = 0; step < 60; ++step) {
            ToldNode& edge = edges[random() % edges.size()];
            const Address guesser = address(static_cast<std::uint32_t>(random() % 3));
            switch (random() % 6) {
                case 0:
                    if (edge.limits.failed(guesser, ++guess, 0)) edge.tell(guesser);
                    break;
                case 1: {
                    const auto lifted = home.lift_everywhere(guesser, 0);
                    lifted_late +=
                        !lifted.was_banned && edge.limits.ban_left(guesser, 0).has_value();
                    for (ToldNode& each : edges) each.to_edge.push_back(lifted.lift);
                    break;
                }
                case 2: edge.deliver_to_home(home); break;
                case 3: edge.deliver_to_edge(); break;
                case 4:
                    if (are_links_lost && random() % 4 == 0) edge.begin_link(home);
                    break;
                default: break;
            }
        }
        for (ToldNode& edge : edges)
            while (edge.deliver_to_home(home) || edge.deliver_to_edge()) continue;
        for (unsigned number = 0; number < 3; ++number) {
            const auto has_ban = [&](const AddressLimits& limits) {
                return limits.ban_left(address(number), 0).has_value();
            };
            const bool is_at_edge =
                std::ranges::any_of(edges, [&](auto& edge) { return has_ban(edge.limits); });
            if (is_at_edge) CHECK(has_ban(home));
            if (!are_links_lost) CHECK(has_ban(home) == is_at_edge);
        }
        for (unsigned number = 0; number < 3; ++number) {
            const auto lifted = home.lift_everywhere(address(number), 0);
            for (ToldNode& edge : edges) {
                edge.to_edge.push_back(lifted.lift);
                while (edge.deliver_to_edge()) continue;
                CHECK_FALSE(edge.limits.ban_left(address(number), 0));
            }
        }
    }
    CHECK(lifted_late > 100);
}
