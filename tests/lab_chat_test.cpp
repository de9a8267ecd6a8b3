#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "loadgen/swarm/agenda.h"
#include "loadgen/swarm/planned_rate.h"
#include "loadgen/swarm/roster.h"

namespace pulsegate::load {

namespace {

using namespace std::chrono_literals;

Scenario scenario_of(std::initializer_list<std::uint32_t> clients) {
    Scenario scenario;
    for (const auto count : clients) {
        Group& group = scenario.groups.emplace_back();
        group.clients = count;
        group.to_what = Group::To::clients;
        group.messages = 10;
    }
    return scenario;
}

}  // namespace

TEST_CASE("messages are planned evenly, however late they are taken") {
    PlannedRate rate(Time(1h), 100, {}, 0.5);
    for (int event = 0; event < 1000; ++event) {
        const Duration expected = from_seconds((event + 0.5) / 100);
        const Duration error = rate.take() - Time(1h) - expected;
        CHECK(std::chrono::abs(error) < 1us);
    }
    CHECK(PlannedRate(Time(1h), 0, {}, 0).next() == Time::max());
    CHECK(PlannedRate().next() == Time::max());
}

TEST_CASE("peaks change the rate for their time") {
    const std::vector<Peak> peaks{{10s, 20s, 3}, {20s, 30s, 0}};
    PlannedRate rate(Time(1h), 50, peaks, 0);
    std::map<std::int64_t, int> by_ten_seconds;
    while (rate.next() < Time(1h) + 40s)
        ++by_ten_seconds[(rate.take() - Time(1h)) / std::chrono::seconds(10)];
    CHECK(std::abs(by_ten_seconds[0] - 500) <= 1);
    CHECK(std::abs(by_ten_seconds[1] - 1500) <= 1);
    CHECK(by_ten_seconds[2] <= 1);
    CHECK(std::abs(by_ten_seconds[3] - 500) <= 1);
}

TEST_CASE("clients of separate servers only write to those of their own") {
    const auto scenario = scenario_of({100});
    const Roster roster(scenario, 7, 3);
    for (std::uint32_t number = 0; number < 100; ++number) {
        const auto contact = roster.contact(number, 0);
        REQUIRE(contact);
        CHECK(contact->number % 3 == number % 3);
        CHECK(roster.same_server(number, contact->number));
    }
}

TEST_CASE("clients of separate servers only watch those of their own") {
    auto scenario = scenario_of({100});
    scenario.groups[0].watches = 20;
    const Roster roster(scenario, 7, 3);
    for (std::uint32_t number = 0; number < 100; ++number) {
        const auto watched = roster.watched_by(number);
        CHECK(watched.size() == 20);
        for (const auto other : watched) CHECK(roster.same_server(number, other));
    }
}

TEST_CASE("no client writes to itself, to a client that falls silent, or to another group") {
    Scenario scenario = scenario_of({100, 50});
    scenario.groups[0].silent = 0.3;
    scenario.groups[1].to = 0;
    const Roster roster(scenario, 7);
    for (std::uint32_t number = 0; number < 150; ++number)
        for (std::uint16_t slot = 0; slot < 4; ++slot) {
            const auto contact = roster.contact(number, slot);
            REQUIRE(contact);
            CHECK(contact->number != number);
            CHECK(contact->number < 100);
            CHECK(!roster.falls_silent(contact->number));
        }
    CHECK(!Roster(scenario_of({1}), 7).contact(0, 0));
}

TEST_CASE("the share of the silent is exact, and they write nothing") {
    for (const double share : {0.0, 0.05, 0.5, 1.0}) {
        Scenario scenario = scenario_of({200});
        scenario.groups[0].silent = share;
        const Roster roster(scenario, 1);
        std::uint32_t silent = 0;
        for (std::uint32_t number = 0; number < 200; ++number) {
            silent += roster.falls_silent(number);
            CHECK((roster.contacts(number) == 0) == roster.falls_silent(number));
        }
        CHECK(silent == static_cast<std::uint32_t>(200 * share));
    }
}

TEST_CASE("contacts have the shares of QoS that were asked for") {
    Scenario scenario = scenario_of({5000});
    scenario.groups[0].qos = {0.6, 0.3, 0.1};
    const Roster roster(scenario, 3);
    std::array<int, 3> counts{};
    for (std::uint32_t number = 0; number < 5000; ++number)
        for (std::uint16_t slot = 0; slot < 4; ++slot)
            ++counts[static_cast<std::size_t>(roster.contact(number, slot)->qos)];
    CHECK(std::abs(counts[0] - 12'000) < 300);
    CHECK(std::abs(counts[1] - 6'000) < 300);
    CHECK(std::abs(counts[2] - 2'000) < 300);

    scenario.groups[0].qos = {0, 0, 1};
    CHECK(Roster(scenario, 3).contact(0, 0)->qos == QoS::exactly_once);
}

TEST_CASE("rooms have equally many members, and members write to their own rooms first") {
    Scenario scenario = scenario_of({100, 60});
    Group& group = scenario.groups[1];
    group.to_what = Group::To::rooms;
    group.to = 1;
    group.rooms = 20;
    group.rooms_each = 2;
    group.contacts = 3;
    const Roster roster(scenario, 5);
    CHECK(roster.rooms() == 20);
    std::map<std::uint32_t, int> members;
    for (std::uint32_t number = 100; number < 160; ++number) {
        const auto rooms = roster.rooms_of(number);
        CHECK(std::set(rooms.begin(), rooms.end()).size() == 2);
        for (const auto room : rooms) ++members[room];
        for (std::uint16_t slot = 0; slot < 2; ++slot)
            CHECK(roster.contact(number, slot)->number == rooms[slot]);
        CHECK(roster.contact(number, 2)->number < 20);
    }
    for (std::uint32_t room = 0; room < 20; ++room) CHECK(members[room] == 6);
}

TEST_CASE("watchers watch different clients of the group that they watch") {
    Scenario scenario = scenario_of({10, 30});
    scenario.groups[0].watches = 12;
    scenario.groups[0].watched = 1;
    const Roster roster(scenario, 5);
    const auto watched = roster.watched_by(3);
    CHECK(std::set(watched.begin(), watched.end()).size() == 12);
    CHECK(std::ranges::all_of(watched, [](auto number) { return number >= 10 && number < 40; }));
    CHECK(roster.watched_by(20).empty());
}

TEST_CASE("sizes of messages are those of the range, and known to the receiver") {
    Scenario scenario = scenario_of({10});
    scenario.groups[0].size = {40, 42};
    const Roster roster(scenario, 5);
    std::set<std::uint32_t> sizes;
    for (std::uint32_t sequence = 0; sequence < 100; ++sequence)
        sizes.insert(roster.message_size(1, 0, sequence));
    CHECK(sizes == std::set<std::uint32_t>{40, 41, 42});
    CHECK(Roster(scenario, 5).message_size(1, 0, 9) == roster.message_size(1, 0, 9));
}

TEST_CASE("an agenda comes to everybody at their last planned time, in order") {
    const Time start{1h};
    std::vector<AgendaEntry> entries(100);
    Agenda agenda;
    agenda.start(start);
    for (std::size_t at = 0; at < entries.size(); ++at) agenda.plan(entries[at], start + at * 77ms);
    for (std::size_t at = 0; at < entries.size(); at += 3)
        agenda.plan(entries[at], start + 3s + at * 31ms);
    agenda.cancel(entries[1]);

    std::vector<Time> due;
    for (const AgendaEntry& entry : entries) due.push_back(entry.due);
    std::set<const AgendaEntry*> seen;
    for (Time now = start; now < start + 10s; now += 10ms)
        agenda.advance(now, [&](AgendaEntry& entry) {
            const Time planned = due[static_cast<std::size_t>(&entry - entries.data())];
            CHECK(planned <= now);
            CHECK(now - planned < 10ms);
            CHECK(seen.insert(&entry).second);
        });
    CHECK(seen.size() == entries.size() - 1);
}

TEST_CASE("an agenda is never late if its owner comes when it says") {
    const Time start{1h};
    std::vector<AgendaEntry> entries(100);
    Agenda agenda;
    agenda.start(start);
    for (std::size_t at = 0; at < entries.size(); ++at)
        agenda.plan(entries[at], start + 1ms + at * 37ms);

    std::size_t seen = 0;
    for (Time now = start; seen < entries.size() && now < start + 10s; now = agenda.next())
        agenda.advance(now, [&](AgendaEntry& entry) {
            CHECK(now == start + 1ms + (&entry - entries.data()) * 37ms);
            ++seen;
        });
    CHECK(seen == entries.size());
}

}  // namespace pulsegate::load
