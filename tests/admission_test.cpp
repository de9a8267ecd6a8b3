#include "server/limits/admission.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "server/limits/address.h"
#include "server/limits/address_limits.h"
#include "server/limits/client_limits.h"
#include "server/limits/login_rate.h"
#include "server/limits/recent_counts.h"
#include "server/login/login_queue.h"

using namespace pulsegate;

namespace {

Address from(const char* text) { return Address(boost::asio::ip::make_address(text)); }

constexpr Millis second = 1000;
constexpr Millis minute = 60 * second;

const Address here = from("10.0.0.7");
const Address there = from("10.0.0.8");

}  // namespace

// -- addresses

TEST_CASE("an IPv6 customer has a network, and IPv4 in IPv6 is IPv4") {
    CHECK(from("10.0.0.7").text() == "10.0.0.7");
    CHECK(from("::ffff:10.0.0.7") == here);
    CHECK(from("2001:db8:1:2:3::4") == from("2001:db8:1:2:5::6"));
    CHECK_FALSE(from("2001:db8:1:2::1") == from("2001:db8:1:3::1"));
    CHECK(from("2001:db8:1:2::1").text() == "2001:db8:1:2::/64");
    CHECK(from("::1").known());
    CHECK(from("::1").text() == "::/64");
    CHECK(from("0.0.0.0").known());
    CHECK_FALSE(Address().known());
}

// -- what happened lately

TEST_CASE("what happened within the last minute counts, and fades") {
    RecentCounts<int> counts;
    for (unsigned i = 1; i <= 10; ++i) CHECK(counts.add(1, second) == i);
    CHECK(counts.count(2, second) == 0);
    CHECK(counts.count(1, minute - 1) == 10);
    CHECK(counts.count(1, minute + minute / 2) == 5);
    CHECK(counts.add(1, minute + minute / 2) == 6);
    CHECK(counts.count(1, 2 * minute) == 1);
    CHECK(counts.count(1, 4 * minute) == 0);
}

TEST_CASE("a minute ends even if nobody asks about it") {
    RecentCounts<int> counts;
    counts.add(1, 59 * second);
    CHECK(counts.count(1, 1000 * minute) == 0);
    counts.add(1, 1000 * minute + 59 * second);
    CHECK(counts.count(1, 1001 * minute) == 1);
    counts.forget(1);
    CHECK(counts.count(1, 1001 * minute) == 0);
}

// -- address_limits

TEST_CASE("an address may have so many connections, and the next few are told") {
    AddressLimits address_limits({.max_connections_per_address = 2});
    using Standing = AddressLimits::Standing;
    CHECK(address_limits.enter(here, 0) == Standing::ok);
    CHECK(address_limits.enter(here, 0) == Standing::ok);
    CHECK(address_limits.enter(there, 0) == Standing::ok);
    for (int i = 0; i < 64; ++i) CHECK(address_limits.enter(here, 0) == Standing::too_many);
    CHECK(address_limits.enter(here, 0) == Standing::refused_silently);
    for (int i = 0; i < 66; ++i) address_limits.leave(here);
    CHECK(address_limits.enter(here, 0) == Standing::ok);
    CHECK(address_limits.enter(here, 0) == Standing::too_many);
}

TEST_CASE("with a limit of 0 an address may have any number of connections") {
    AddressLimits address_limits({.max_connections_per_address = 0});
    for (int i = 0; i < 100'000; ++i)
        REQUIRE(address_limits.enter(here, 0) == AddressLimits::Standing::ok);
}

TEST_CASE("connections from nowhere count for no limit") {
    AddressLimits address_limits({.max_connections_per_address = 1, .ban_failures = 1});
    for (int i = 0; i < 100; ++i) {
        CHECK(address_limits.enter(Address(), 0) == AddressLimits::Standing::ok);
        CHECK_FALSE(address_limits.failed(Address(), 1, 0));
    }
    address_limits.leave(Address());
}

TEST_CASE("wrong passwords ban their address, and nobody else's, for a while") {
    AddressLimits address_limits({.ban_failures = 3, .ban_time = 10 * second});
    using Standing = AddressLimits::Standing;
    CHECK_FALSE(address_limits.failed(here, 1, 0));
    CHECK_FALSE(address_limits.failed(here, 2, 1));
    CHECK(address_limits.enter(here, 2) == Standing::ok);
    CHECK(address_limits.failed(here, 3, 2));
    CHECK_FALSE(address_limits.failed(here, 4, 3));  // it is banned already
    CHECK(address_limits.enter(here, 10 * second) == Standing::banned);
    CHECK(address_limits.enter(there, 10 * second) == Standing::ok);
    REQUIRE(address_limits.bans(10 * second).size() == 1);
    CHECK(address_limits.bans(10 * second).front().address == "10.0.0.7");
    CHECK(address_limits.bans(10 * second).front().left == 2);
    CHECK(address_limits.enter(here, 10 * second + 2) == Standing::ok);
    CHECK(address_limits.bans(10 * second + 2).empty());
    CHECK_FALSE(address_limits.failed(here, 5, 10 * second + 2));  // it begins anew
}

TEST_CASE("repeating one wrong password does not count as guessing, up to a bound") {
    AddressLimits address_limits({.ban_failures = 3});
    for (int i = 0; i < 58; ++i) CHECK_FALSE(address_limits.failed(here, 1 + i % 2, 0));
    CHECK_FALSE(address_limits.failed(here, 1, 0));
    CHECK(
        address_limits.failed(here, 1, 0));  // sixty, twenty times as many as different ones may be
    AddressLimits others({.ban_failures = 3});
    CHECK_FALSE(others.failed(here, 1, 0));
    CHECK_FALSE(others.failed(here, 1, 0));
    CHECK_FALSE(others.failed(here, 2, 0));
    CHECK(others.failed(here, 3, 0));
}

TEST_CASE("phones that repeat their old passwords once a minute are not banned") {
    AddressLimits address_limits({.ban_failures = 3});
    for (Millis now = 0; now < 100 * minute; now += 50 * second)
        for (std::uint64_t password : {1, 2})
            CHECK_FALSE(address_limits.failed(here, password, now));
}

TEST_CASE("an address that guesses slowly is not banned") {
    AddressLimits address_limits({.ban_failures = 3});
    for (Millis now = 0; now < 100 * minute; now += 31 * second)
        CHECK_FALSE(address_limits.failed(here, static_cast<std::uint64_t>(now), now));
}

TEST_CASE("a ban can be lifted") {
    AddressLimits address_limits({.ban_failures = 1});
    CHECK(address_limits.failed(here, 1, 0));
    CHECK_FALSE(address_limits.lift_ban(there, 0));
    CHECK(address_limits.lift_ban(here, 0));
    CHECK(address_limits.enter(here, 0) == AddressLimits::Standing::ok);
}

TEST_CASE("the administrator's ban of an address lasts as long as it says, or for good") {
    AddressLimits address_limits({.ban_failures = 1, .ban_time = 10 * second});
    REQUIRE(address_limits.order_ban(here, 0, 20 * second, "scraper"));
    REQUIRE(address_limits.order_ban(there, 0, for_good, ""));
    CHECK(address_limits.enter(here, 1) == AddressLimits::Standing::banned);
    const auto cause = address_limits.banned(here, 1);
    REQUIRE(cause);
    CHECK(cause->ordered);
    CHECK(cause->reason == "scraper");
    CHECK_FALSE(address_limits.banned(here, 20 * second));
    CHECK(address_limits.banned(there, 1'000'000 * minute));
    REQUIRE(address_limits.bans(20 * second).size() == 1);
    CHECK_FALSE(address_limits.bans(20 * second).front().left);
    CHECK_FALSE(address_limits.lift_ban(here, 20 * second));  // it has ended
    CHECK(address_limits.lift_ban(there, 20 * second));
}

TEST_CASE("an address is an IP address, or an IPv6 network of 64 bits, and nothing else") {
    CHECK(Address::parse("10.0.0.7")->text() == "10.0.0.7");
    CHECK(Address::parse("2001:db8::7")->text() == "2001:db8::/64");
    CHECK(Address::parse("2001:db8::/64")->text() == "2001:db8::/64");
    CHECK(Address::parse("::ffff:10.0.0.7")->text() == "10.0.0.7");
    CHECK(Address::parse("fe80::7%lo")->text() == "fe80::/64");
    CHECK(Address::parse("fe80::7%no-such-link")->text() == "fe80::/64");
    for (const char* text :
         {"", "10.0.0", "10.0.0.0/8", "10.0.0.7/64", "2001:db8::/32", "x", "/64", "fe80::7%",
          "2001:db8::7%lo", "10.0.0.7%lo", "::ffff:10.0.0.7/64", "%lo"})
        CHECK_FALSE_MESSAGE(Address::parse(text), text);
}

TEST_CASE("an address is told as IPv4 if it is mapped to IPv6") {
    const auto text = [](const char* address) {
        return address_text(boost::asio::ip::make_address(address), 1883);
    };
    CHECK(text("10.0.0.7") == "10.0.0.7:1883");
    CHECK(text("::ffff:10.0.0.7") == "10.0.0.7:1883");
    CHECK(text("2001:db8::7") == "[2001:db8::7]:1883");
    CHECK(address_text(boost::asio::ip::make_address("::ffff:10.0.0.7")) == "10.0.0.7");
}

// -- client_limits

TEST_CASE("a client that loses its connections all the time is banned for a while") {
    ClientLimits client_limits({.ban_flaps = 3, .ban_time = 10 * second});
    CHECK_FALSE(client_limits.broke_off("u", "c", 0));
    CHECK_FALSE(client_limits.broke_off("u", "c", 1));
    CHECK_FALSE(client_limits.banned("u", "c", 1));
    CHECK(client_limits.broke_off("u", "c", 2));
    CHECK(client_limits.banned("u", "c", 2));
    CHECK_FALSE(client_limits.banned("u", "d", 2));
    CHECK_FALSE(client_limits.banned("v", "c", 2));
    REQUIRE(client_limits.bans(2).size() == 1);
    CHECK(client_limits.bans(2).front().user == "u");
    CHECK(client_limits.bans(2).front().client == "c");
    CHECK(client_limits.bans(2).front().left == 10 * second);
    CHECK_FALSE(client_limits.banned("u", "c", 10 * second + 2));
    CHECK(client_limits.broke_off("u", "c", 3) == false);
}

TEST_CASE("a client that does nothing but come and say goodbye is banned ten times later") {
    ClientLimits limits({.ban_flaps = 3});
    for (Millis i = 0; i < 29; ++i) CHECK_FALSE(limits.logged_out("u", "c", i));
    CHECK_FALSE(limits.logged_out("u", "another", 29));
    CHECK(limits.logged_out("u", "c", 29));
    CHECK(limits.banned("u", "c", 30));
    // Both kinds count.
    CHECK_FALSE(limits.broke_off("u", "d", 0));
    CHECK_FALSE(limits.broke_off("u", "d", 0));
    for (Millis i = 0; i < 9; ++i) CHECK_FALSE(limits.logged_out("u", "d", i));
    CHECK(limits.logged_out("u", "d", 9));
}

TEST_CASE("the ban of a client can be lifted") {
    ClientLimits client_limits({.ban_flaps = 1});
    CHECK(client_limits.broke_off("u", "c", 0));
    CHECK_FALSE(client_limits.lift_ban("u", "x", 0));
    CHECK(client_limits.lift_ban("u", "c", 0));
    CHECK_FALSE(client_limits.banned("u", "c", 0));
}

TEST_CASE("bans are read page by page, in the order in which they were set") {
    ClientLimits limits({});
    constexpr std::size_t count = 2500;
    for (std::size_t i = 0; i < count; ++i)
        REQUIRE(limits.order_ban(fmt::format("u{}", i % 100), fmt::format("c{}", i), 0,
                                 i % 2 == 0 ? for_good : 10 * second, "spam"));
    REQUIRE(limits.order_ban("u0", "c0", 0, for_good, "again"));  // comes last now
    std::vector<std::string> clients;
    std::uint64_t after = 0;
    for (bool more = true; more;) {
        const BanPage page = limits.bans(std::nullopt, after, 7, 0);
        CHECK(page.bans.size() <= 7);
        for (const Ban& ban : page.bans) clients.push_back(ban.client);
        more = page.next.has_value();
        after = page.next.value_or(0);
    }
    REQUIRE(clients.size() == count);
    CHECK(clients.front() == "c1");
    CHECK(clients.at(1000) == "c1001");
    CHECK(clients.back() == "c0");
    CHECK(limits.bans(std::nullopt, 0, 10'000, 10 * second).bans.size() < 1000);  // a turn's work
}

TEST_CASE("a page of one user's bans has no others, also if a turn finds none") {
    ClientLimits limits({});
    for (std::size_t i = 0; i < 1500; ++i)
        REQUIRE(limits.order_ban("other", fmt::format("c{}", i), 0, for_good, ""));
    REQUIRE(limits.order_ban("u", "", 0, 10 * second, ""));
    const BanPage first = limits.bans("u", 0, 10, 0);
    CHECK(first.bans.empty());
    REQUIRE(first.next);
    const BanPage second_page = limits.bans("u", *first.next, 10, 0);
    REQUIRE(second_page.bans.size() == 1);
    CHECK(second_page.bans.front().left == 10 * second);
    CHECK_FALSE(second_page.next);
    CHECK(limits.bans("u", *first.next, 10, 10 * second).bans.empty());
}

TEST_CASE("a page of bans with long names ends early") {
    ClientLimits limits({});
    for (std::size_t i = 0; i < 100; ++i)
        REQUIRE(limits.order_ban(fmt::format("{:>65535}", i), "", 0, for_good, ""));
    const BanPage page = limits.bans(std::nullopt, 0, 100, 0);
    CHECK(page.bans.size() == 16);
    CHECK(page.next);
}

TEST_CASE("the first takeovers are free, then each waits longer, up to a bound") {
    ClientLimits client_limits({.duel_takeovers = 3});
    std::vector<Millis> pauses;
    for (int i = 0; i < 9; ++i) pauses.push_back(client_limits.pause_before_takeover("u", "c", i));
    CHECK(pauses == std::vector<Millis>{0, 0, 0, 1000, 2000, 4000, 8000, 8000, 8000});
    CHECK(client_limits.pause_before_takeover("u", "d", 9) == 0);
    CHECK(client_limits.pause_before_takeover("u", "c", 3 * minute) == 0);
}

TEST_CASE("the administrator bans a client, or all of a user's, and no flapping shortens that") {
    ClientLimits limits({.ban_flaps = 1, .ban_time = 10 * second});
    REQUIRE(limits.order_ban("u", "c", 0, 20 * second, "stolen"));
    CHECK(limits.banned("u", "c", 1));
    CHECK_FALSE(limits.banned("u", "d", 1));
    CHECK(limits.broke_off("u", "c", 1));
    CHECK(limits.banned("u", "c", 15 * second)->reason == "stolen");
    REQUIRE(limits.order_ban("u", "", 0, for_good, ""));
    CHECK(limits.banned("u", "d", 1));
    CHECK_FALSE(limits.banned("v", "d", 1));
    CHECK(limits.lift_ban("u", "", 1));
    CHECK_FALSE(limits.banned("u", "d", 1));
    CHECK(limits.banned("u", "c", 1));
}

TEST_CASE("the administrator's bans are bounded, and those that have ended make room") {
    ClientLimits limits({});
    for (std::size_t i = 0; i < most_ordered_bans; ++i)
        REQUIRE(limits.order_ban("u", std::to_string(i), 0, i == 0 ? 5 : for_good, ""));
    CHECK_FALSE(limits.order_ban("v", "", 1, for_good, ""));
    CHECK(limits.order_ban("u", "7", 1, for_good, "other words"));
    CHECK(limits.order_ban("v", "", 5, for_good, ""));
    CHECK_FALSE(limits.order_ban("w", "", 5, for_good, ""));
    CHECK(limits.lift_ban("u", "8", 5));
    CHECK(limits.order_ban("w", "", 5, for_good, ""));
}

TEST_CASE("limits of 0 ban nobody and let nobody wait") {
    ClientLimits client_limits({.ban_flaps = 0, .duel_takeovers = 0});
    for (int i = 0; i < 1000; ++i) {
        CHECK_FALSE(client_limits.broke_off("u", "c", i));
        CHECK(client_limits.pause_before_takeover("u", "c", i) == 0);
    }
}

// -- the queue

TEST_CASE("so many logins a second, with a burst of a twentieth") {
    LoginRate rate(1000);
    int taken = 0;
    for (Millis now = second; now < 11 * second; ++now)
        while (rate.take(now)) ++taken;
    CHECK(taken >= 10'000);
    CHECK(taken <= 10'050);
    int burst = 0;
    while (rate.take(100 * second)) ++burst;
    CHECK(burst == 50);
}

TEST_CASE("a rate below one a second lets one in from time to time") {
    LoginRate rate(0.5);
    int taken = 0;
    for (Millis now = 0; now <= 20 * second; now += 10) taken += rate.take(now);
    CHECK(taken >= 10);
    CHECK(taken <= 11);
}

TEST_CASE("with a rate of 0 any number may log in") {
    LoginRate rate(0);
    for (int i = 0; i < 100'000; ++i) REQUIRE(rate.take(0));
}

TEST_CASE("a login that did not need its turn leaves it to another") {
    LoginRate rate(10);
    CHECK(rate.take(second));
    CHECK_FALSE(rate.take(second));
    rate.give_back();
    CHECK(rate.take(second));
    CHECK_FALSE(rate.take(second));
}

TEST_CASE("the rate of logins is one for all shards, and one alone may use it up") {
    LoginRate rate(1000);
    const auto ahead = [](unsigned shard) { return Millis{2} * shard; };  // its clock, in ms
    std::array<int, 3> taken{};
    for (Millis now = second; now < 11 * second; ++now)
        for (unsigned shard = 0; shard < taken.size(); ++shard)
            taken[shard] += rate.take(now + ahead(shard));
    const int all = taken[0] + taken[1] + taken[2];
    CHECK(all >= 10'000);
    CHECK(all <= 10'060);
    int alone = 0;
    for (Millis now = 20 * second; now < 30 * second; ++now)
        while (rate.take(now)) ++alone;
    CHECK(alone >= 10'000);
    CHECK(alone <= 10'050);
}

TEST_CASE("shards that ask at the same time get no login more than the rate has") {
    LoginRate rate(100);
    std::atomic<int> taken = 0;
    {
        std::vector<std::jthread> shards;
        for (int shard = 0; shard < 4; ++shard)
            shards.emplace_back([&] {
                for (int i = 0; i < 10'000; ++i) taken += rate.take(second);
            });
    }
    CHECK(taken == 5);
}

TEST_CASE("addresses take turns, and those of one address come in their order") {
    LoginQueue queue(second);
    for (LoginQueue::Ticket ticket = 1; ticket <= 4; ++ticket) queue.add(here, ticket, 0);
    queue.add(there, 5, 0);
    queue.add(there, 6, 0);
    std::vector<LoginQueue::Ticket> order;
    while (const auto ticket = queue.next()) {
        order.push_back(*ticket);
        if (*ticket == 5) queue.add(from("10.0.0.9"), 7, 0);  // a new address need not wait for all
    }
    CHECK(order == std::vector<LoginQueue::Ticket>{1, 5, 2, 6, 7, 3, 4});
    CHECK(queue.empty());
}

TEST_CASE("only a login that has waited too long is refused") {
    LoginQueue queue(second);
    queue.add(here, 1, 0);
    queue.add(there, 2, 500);
    CHECK_FALSE(queue.next_overdue(999));
    CHECK(queue.next_overdue(1000) == 1);
    CHECK_FALSE(queue.next_overdue(1000));
    CHECK(queue.next() == 2);
    CHECK_FALSE(queue.next());
    CHECK_FALSE(queue.next_overdue(9999));
}

TEST_CASE(
    "no login is served before one from an address with fewer turns, while others come and go") {
    // The model serves a waiting login of the address that was served least since it began to wait.
    std::mt19937 random(7);
    LoginQueue queue(minute);
    std::map<std::uint32_t, std::deque<LoginQueue::Ticket>> waiting;
    std::map<std::uint32_t, std::uint64_t> passed_over;
    std::map<LoginQueue::Ticket, std::uint32_t> place_of;
    LoginQueue::Ticket ticket = 0;
    for (Millis now = 0; now < 20'000; ++now) {
        const auto place = static_cast<std::uint32_t>(random() % 20);
        if (random() % 3 != 0) {
            queue.add(Address(boost::asio::ip::address_v4(place + 1)), ++ticket, now);
            waiting[place].push_back(ticket);
            place_of[ticket] = place;
        }
        if (random() % 2 == 0) {
            const auto next = queue.next();
            REQUIRE(next.has_value() == !place_of.empty());
            if (next) {
                const auto served = place_of.at(*next);
                REQUIRE(waiting[served].front() == *next);
                waiting[served].pop_front();
                place_of.erase(*next);
                passed_over[served] = 0;
                for (auto& [other, tickets] : waiting)
                    if (tickets.empty())
                        passed_over[other] = 0;
                    else if (other != served)
                        REQUIRE(++passed_over[other] <= 2 * 20);  // twice round at most
            }
        }
        REQUIRE(queue.size() == place_of.size());
    }
}

// -- what the process can hold

TEST_CASE("beyond the memory budget there is no room, and below there is") {
    Admission admission({.max_connections = 0, .memory_budget = 1}, 10);
    CHECK(!admission.reached());
    admission.weigh();
    CHECK(admission.reached() == Limit::memory_budget);

    Admission busy({.max_connections = 0, .memory_budget = 1}, 10);
    busy.weigh_if_due(1000, 0);  // at its first packet
    CHECK(busy.reached() == Limit::memory_budget);

    Admission fast({}, 10);
    fast.weigh_if_due(1000, 0);
    const auto before = fast.memory();
    const std::string large(32 * 1024 * 1024, 'x');
    fast.weigh_if_due(1001, 4 * 1024 * 1024);
    CHECK(fast.memory() == before);
    fast.weigh_if_due(1001, 4 * 1024 * 1024 + 1);  // messages have grown
    CHECK(fast.memory() > before + large.size() / 2);

    Admission roomy({}, 10);
    roomy.weigh();
    CHECK(roomy.memory() > 0);
    CHECK(roomy.memory_budget() > roomy.memory());
    CHECK(!roomy.reached());
}

TEST_CASE("max-connections counts as the file limit does") {
    Admission admission({.max_connections = 2, .memory_budget = 0}, 10);
    CHECK(admission.capacity() == 2);
    CHECK(admission.bound() == "max-connections");
    admission.opened();
    admission.opened();
    CHECK(!admission.reached());
    admission.opened();
    CHECK(admission.reached() == Limit::max_connections);
    CHECK(admission.can_accept());
    admission.closed();
    CHECK(!admission.reached());
}
