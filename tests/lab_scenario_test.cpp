#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "loadgen/scenario/builtin.h"
#include "loadgen/scenario/keys.h"
#include "loadgen/scenario/parser.h"
#include "loadgen/scenario/target.h"

using namespace pulsegate;
using namespace pulsegate::load;
using namespace std::chrono_literals;

namespace {

Scenario scenario_of(const std::string& text, std::vector<const char*> set = {}, double scale = 1) {
    std::vector<Setting> overrides;
    for (const char* each : set) overrides.push_back(read_override(each));
    return parse_scenario({"test", "test.scenario", text}, overrides, scale);
}

std::string scenario_error(const std::string& text, std::vector<const char*> set = {}) {
    try {
        scenario_of(text, std::move(set));
    } catch (const std::runtime_error& error) {
        return error.what();
    }
    return "";
}

bool contains_text(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
}

double messages_of(const Scenario& scenario) {
    double sum = 0;
    for (const Group& group : scenario.groups) sum += group.messages;
    return sum;
}

}  // namespace

TEST_CASE("a scenario is read line by line, and what stands at the top holds for each group") {
    const auto scenario = scenario_of(R"(
about = two kinds of clients   # a comment
clients = 1000
keepalive = 40s
peak = 3m..6m x2.5

[group desktops]
clients = 95%
[group phones]
keepalive = 60s
session = kept
online = 30s..2m
away = 5s
qos = 0:80% 1:20%
size = 64..1024
)");
    CHECK(scenario.about == "two kinds of clients");
    REQUIRE(scenario.groups.size() == 2);
    const Group& desktops = scenario.groups[0];
    const Group& phones = scenario.groups[1];
    CHECK(desktops.clients == 950);
    CHECK(desktops.keepalive == 40s);
    CHECK(phones.clients == 50);
    CHECK(phones.keepalive == 60s);
    CHECK(phones.kept_session);
    CHECK(phones.online.most == 120s);
    CHECK(phones.away.least == 5s);
    CHECK(phones.qos[1] == doctest::Approx(0.2));
    CHECK(phones.size.most == 1024);
    CHECK(phones.line == 9);
    REQUIRE(scenario.peaks.size() == 1);
    CHECK(scenario.peaks[0].factor == 2.5);
    CHECK(scenario.first_of(1) == 950);
}

TEST_CASE("each mistake names its file, its line and what would be right") {
    const struct {
        const char* text;
        const char* error;
    } mistakes[]{
        {"\nqos = 3", "test.scenario:2: 'qos': write 0, 1 or 2, or shares such as 0:80% 1:20%"},
        {"qos = 0:80% 1:30%", "test.scenario:1: 'qos': the shares add up to 110 %"},
        {"keepalive = 20", "test.scenario:1: 'keepalive': write a time with its unit"},
        {"keepalive = 500ms", "test.scenario:1: 'keepalive': write whole seconds"},
        {"clients = many", "test.scenario:1: 'clients': write a whole number"},
        {"clients =", "test.scenario:1: 'clients': write a whole number"},
        {"ramp = 0", "test.scenario:1: 'ramp': write a rate above 0"},
        {"size = 1024..64", "test.scenario:1: 'size': write the smaller size first"},
        {"size = 16", "test.scenario:1: 'size': write a number from 32"},
        {"away = 2m..5s", "test.scenario:1: 'away': write the shorter time first"},
        {"peak = 3m x2", "test.scenario:1: 'peak': write from when to when"},
        {"leave = quickly", "test.scenario:1: 'leave': write disconnect, reset or vanish"},
        {"hostile = rude", "test.scenario:1: 'hostile': write none, half-open"},
        {"to = everybody", "test.scenario:1: 'to': write nobody, clients or rooms"},
        {"keepalives = 20s",
         "test.scenario:1: 'keepalives': no such key; did you mean 'keepalive'?"},
        {"clients", "test.scenario:1: 'clients': write 'key = value'"},
        {"= 3", "test.scenario:1: '= 3': write 'key = value'"},
        {"[group]", "test.scenario:1: '[group]': write a heading such as [group phones]"},
        {"[group a b]", "test.scenario:1: '[group a b]': write a heading"},
        {"[group a]\n[group a]", "test.scenario:2: there is a group 'a' already"},
        {"[group a]\nduration = 5s", "test.scenario:2: 'duration': this is a key of the scenario"},
        {"[group a]\nto = clients of b", "test.scenario:2: 'to': there is no group 'b'"},
        {"[group a]\nmessages = 5/s\nto = rooms", "test.scenario:3: 'to': group 'a' has no rooms"},
        {"[group a]\nmessages = 5/s\nto = nobody",
         "test.scenario:2: 'messages': the group writes "
         "to nobody"},
        {"clients = 10\n[group a]\nclients = 11",
         "test.scenario:3: 'clients': the groups have 11 "
         "clients"},
        {"clients = 10\n[group a]\nclients = 1\nmessages = 5/s",
         "test.scenario:4: 'messages': messages need two talking clients"},
        {"clients = 10\nstorm = 11", "test.scenario:2: 'storm': the group has 10 clients"},
        {"online = 5s", "test.scenario:1: 'online': naps need both"},
    };
    for (const auto& mistake : mistakes) {
        CAPTURE(mistake.text);
        const auto error = scenario_error(mistake.text);
        CHECK_MESSAGE(error.starts_with(mistake.error), error);
    }
}

TEST_CASE("a comment ends a line, but a # within a word does not") {
    CHECK(scenario_of("about = rooms #1 and#2").about == "rooms");
    CHECK(scenario_of("about = a#b").about == "a#b");
    CHECK(scenario_of("# nothing\r\nclients = 7\r\n").clients() == 7);
}

TEST_CASE("settings are overridden for one group or for all") {
    const char* text = "clients = 100\n[group a]\nclients = 50%\nkeepalive = 30s\n[group b]\n";
    auto scenario = scenario_of(text, {"keepalive=60s"});
    CHECK(scenario.groups[0].keepalive == 60s);
    CHECK(scenario.groups[1].keepalive == 60s);

    scenario = scenario_of(text, {"b.keepalive = 7s", "a.clients=10%"});
    CHECK(scenario.groups[0].keepalive == 30s);
    CHECK(scenario.groups[0].clients == 10);
    CHECK(scenario.groups[1].keepalive == 7s);
    CHECK(scenario.groups[1].clients == 90);

    CHECK(contains_text(scenario_error(text, {"c.keepalive=7s"}),
                        "--set c.keepalive=7s: there is no group 'c'"));
    CHECK(contains_text(scenario_error(text, {"keepalive"}), "--set 'keepalive': write key=value"));
    CHECK(contains_text(scenario_error(text, {"qos=9"}), "--set qos=9: write 0, 1 or 2"));
}

TEST_CASE("clients are divided among groups, and fewer of them keep the groups' proportions") {
    const char* text = "clients = 1000\n[group a]\nclients = 900\n[group b]\nclients = 100\n";
    auto scenario = scenario_of(text, {"clients=100"});
    CHECK(scenario.groups[0].clients == 90);
    CHECK(scenario.groups[1].clients == 10);

    scenario = scenario_of(text, {"clients=2000", "b.clients=7"});
    CHECK(scenario.groups[0].clients == 1800);
    CHECK(scenario.groups[1].clients == 7);

    scenario = scenario_of("clients = 10\n[group a]\nclients = 33.3%\n[group b]\n[group c]\n");
    CHECK(scenario.groups[0].clients == 3);
    CHECK(scenario.groups[1].clients == 3);
    CHECK(scenario.groups[2].clients == 4);

    scenario = scenario_of("clients = 7\n[group a]\nclients = 50%\n[group b]\nclients = 50%\n");
    CHECK(scenario.clients() == 7);
}

TEST_CASE("a rate at the top is divided among the groups that have none of their own") {
    const auto scenario = scenario_of(R"(
clients = 100
ramp = 100/s
messages = 90/s
[group a]
clients = 60
[group b]
clients = 30
[group c]
messages = 5/s
ramp = 7/s
)");
    CHECK(scenario.groups[0].messages == doctest::Approx(60));
    CHECK(scenario.groups[1].messages == doctest::Approx(30));
    CHECK(scenario.groups[2].messages == 5);
    CHECK(scenario.groups[0].ramp == doctest::Approx(100 * 60.0 / 90));
    CHECK(scenario.groups[2].ramp == 7);
}

TEST_CASE("--scale multiplies clients, rates and rooms") {
    const char* text =
        "clients = 100\nmessages = 10/s\nto = rooms\nrooms = 5\nramp = 50/s\n"
        "[group a]\nclients = 40\n[group b]\n";
    const auto scenario = scenario_of(text, {}, 3);
    CHECK(scenario.clients() == 300);
    CHECK(scenario.groups[0].clients == 120);
    CHECK(messages_of(scenario) == doctest::Approx(30));
    CHECK(scenario.groups[0].rooms == 15);
    CHECK(scenario.groups[0].ramp + scenario.groups[1].ramp == doctest::Approx(150));
}

TEST_CASE("the default scenario fills up to 3,000 packets a second") {
    const auto scenario = parse_scenario(find_scenario("keepalive"));
    CHECK(scenario.clients() == 15'000);
    CHECK(scenario.groups.size() == 1);
    const double pings = 15'000 * 0.95 / 17.5;
    CHECK(scenario.groups[0].messages + pings == doctest::Approx(3000).epsilon(0.001));
    CHECK(scenario.packets() == doctest::Approx(3000).epsilon(0.001));
    CHECK(scenario.settled_after() == 41s + 100ms);
}

TEST_CASE("acknowledgements are packets too") {
    const auto packets = [](const char* qos) {
        return scenario_of("clients = 1000\nmessages = fill\npackets = 3000/s\nqos = " +
                           std::string(qos))
            .groups[0]
            .messages;
    };
    const double pings = 1000 / 17.5;
    CHECK(packets("0") == doctest::Approx(3000 - pings).epsilon(0.001));
    CHECK(packets("1") == doctest::Approx((3000 - pings) / 2).epsilon(0.001));
    CHECK(packets("2") == doctest::Approx((3000 - pings) / 4).epsilon(0.001));
}

TEST_CASE("those in the storm are a group of their own, which neither writes nor falls silent") {
    const auto scenario = scenario_of("clients = 16000\nmessages = 100/s\nsilent = 5%",
                                      {"storm=15000", "storm-after=3s"});
    REQUIRE(scenario.groups.size() == 2);
    CHECK(scenario.groups[0].clients == 1000);
    CHECK_FALSE(scenario.groups[0].storm);
    CHECK(scenario.groups[0].messages == 100);
    CHECK(scenario.groups[0].silent == 0.05);
    CHECK(scenario.groups[1].clients == 15'000);
    CHECK(scenario.groups[1].storm);
    CHECK(scenario.groups[1].messages == 0);
    CHECK(scenario.groups[1].silent == 0);
    CHECK(scenario.groups[1].storm_after == 3s);
}

TEST_CASE("every built-in scenario can be run, and scaled") {
    CHECK(builtin_scenarios().size() >= 7);
    for (const auto& scenario : builtin_scenarios()) {
        CAPTURE(scenario.name);
        const auto text = find_scenario(std::string(scenario.name));
        CHECK_FALSE(parse_scenario(text).about.empty());
        CHECK(parse_scenario(text, {}, 3).clients() ==
              doctest::Approx(3 * parse_scenario(text).clients()).epsilon(0.01));
        CHECK(parse_scenario(text, {read_override("clients=100")}).clients() == 100);
    }
}

TEST_CASE("a scenario that isn't there says which are") {
    CHECK_THROWS_WITH_AS(find_scenario("keepalife"), doctest::Contains("did you mean 'keepalive'?"),
                         std::runtime_error);
}

TEST_CASE("the README lists every key as it is") {
    std::ifstream file(PULSEGATE_SOURCE_DIR "/loadgen/scenario/README.md");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const bool is_there = text.find(key_reference()) != std::string::npos;
    CHECK_MESSAGE(is_there, "loadgen/scenario/README.md must have these tables:\n"
                                << key_reference());
}

TEST_CASE("servers are given by URL") {
    const auto round_trip = [](const char* url) { return url_of(parse_server(url)); };
    CHECK(round_trip("mqtt://localhost") == "mqtt://localhost:1883");
    CHECK(round_trip("mqtts://[::1]:99") == "mqtts://[::1]:99");
    CHECK(round_trip("mqtts://[::1]") == "mqtts://[::1]:8883");
    CHECK(round_trip("ws://chat.example/mqtt") == "ws://chat.example:80/mqtt");
    CHECK(round_trip("wss://chat.example:8084/a/b") == "wss://chat.example:8084/a/b");
    CHECK_THROWS_AS(parse_server("http://localhost"), std::invalid_argument);
    CHECK_THROWS_AS(parse_server("mqtt://localhost:0"), std::invalid_argument);
    CHECK_THROWS_AS(parse_server("mqtt://localhost/path"), std::invalid_argument);
}

TEST_CASE("hostile clients do only that") {
    const auto scenario = scenario_of(R"(
clients = 100
silent = 50%
messages = 10/s
storm = 10%
[group clients]
[group garbage]
clients = 20
hostile = garbage
)");
    REQUIRE(scenario.groups.size() == 3);
    CHECK(scenario.groups[2].hostile == Hostile::garbage);
    CHECK(scenario.groups[2].clients == 20);
    CHECK(scenario.groups[2].silent == 0);
    CHECK(scenario.groups[2].messages == 0);
    CHECK(scenario.groups[0].messages == 10);
    CHECK(scenario.groups[0].clients == 90);
    CHECK(scenario.groups[1].clients == 10);
}

TEST_CASE("hostile clients come after a quiet time, if there are any") {
    const std::string hostile =
        "[group clients]\n[group garbage]\nclients = 2\nhostile = garbage\n";
    CHECK(scenario_of("clients = 10").hostile_after == 0s);
    CHECK(scenario_of("clients = 10\n" + hostile).hostile_after == 10s);
    CHECK(scenario_of("clients = 10\nduration = 6s\n" + hostile).hostile_after == 2s);
    CHECK(scenario_of("clients = 10\nhostile-after = 0s\n" + hostile).hostile_after == 0s);
    const auto late = scenario_of("clients = 10\nhostile-after = 40s\n" + hostile);
    CHECK(late.hostile_after == 40s);
    CHECK(late.settled_after() == 80s);
}

TEST_CASE("a message is late after the time of two pings, and after 2 s at the earliest") {
    Scenario scenario;
    CHECK(scenario.late_after(false) == 2s);
    CHECK(scenario.late_after(true) == 10s);
    scenario.ping_within = 100ms;
    CHECK(scenario.late_after(false) == 2s);
    scenario.ping_within = 3s;
    CHECK(scenario.late_after(false) == 6s);
}

TEST_CASE("silent clients that start later are waited for") {
    const auto scenario = scenario_of(
        "[group a]\nclients = 10\n"
        "[group b]\nclients = 100\nramp = 50/s\nstarts = 15s\nkeepalive = 10s\nsilent = 100%\n");
    const Group& late = scenario.groups[1];
    CHECK(scenario.settled_after() ==
          15s + 2s + late.silent_after + late.silent_over + 15s + 1s + 100ms);
}
