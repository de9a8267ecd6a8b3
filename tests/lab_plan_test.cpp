#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "loadgen/lab/layout.h"
#include "loadgen/scenario/parser.h"

using namespace pulsegate;
using namespace pulsegate::load;

namespace {

Target servers(std::initializer_list<const char*> urls) {
    Target target;
    for (const char* url : urls) target.servers.push_back(parse_server(url));
    return target;
}

Scenario scenario_with(const std::string& text) {
    return parse_scenario({"test", "test.scenario", text});
}

Layout layout_of(const std::string& text, const MachineLimits& limits,
                 const LayoutOptions& options = {},
                 const Target& target = servers({"mqtt://127.0.0.1"})) {
    return lay_out(scenario_with(text), target, options, limits);
}

std::string layout_error(const std::string& text, const MachineLimits& limits,
                         const LayoutOptions& options = {}) {
    try {
        layout_of(text, limits, options);
    } catch (const std::runtime_error& error) {
        return error.what();
    }
    return "";
}

bool mentions_part(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a run has as many workers as the file limit demands") {
    const MachineLimits limits{.files = 20'000, .cores = 2};
    CHECK(layout_of("clients = 15000", limits).workers == 1);
    CHECK(layout_of("clients = 19950", limits).workers == 1);
    CHECK(layout_of("clients = 19951", limits).workers == 2);

    const auto layout = layout_of("clients = 200000", limits, {},
                                  servers({"mqtt://127.0.0.1:1883", "mqtt://127.0.0.1:1884"}));
    CHECK(layout.workers == 11);
    CHECK(layout.in_progress == 200 / 11);
}

TEST_CASE("much traffic takes workers as well, but no more than there are cores") {
    const MachineLimits limits{.files = 20'000, .cores = 4};
    CHECK(layout_of("clients = 1000\nmessages = 120000/s", limits).workers == 3);
    CHECK(layout_of("clients = 1000\nmessages = 900000/s", limits).workers == 4);
    CHECK(layout_of("clients = 3\nmessages = 900000/s", limits).workers == 3);
}

TEST_CASE("clients that leave half open connections behind need files for them") {
    const MachineLimits limits{.files = 20'000};
    const char* naps = "clients = 15000\nonline = 10s\naway = 5s\nleave = ";
    CHECK(layout_of(naps + std::string("disconnect"), limits).workers == 1);
    CHECK(layout_of(naps + std::string("vanish"), limits).workers == 2);
    CHECK(connections_of(scenario_with("clients = 100\n[group a]\nclients = 10\nhostile = duel\n"
                                       "[group b]\n")) == 120);
    // Each second 10 are left behind, for a limit of 30 s and a tick.
    CHECK(connections_of(scenario_with("clients = 1000\nnetwork-changes = 10/s")) == 1310);
}

TEST_CASE("too few workers for the file limit is an error with the remedy") {
    const auto error = layout_error("clients = 100000", {.files = 20'000}, {.workers = 3});
    for (const char* part :
         {"--clients 100000", "20000", "--workers 6", "ulimit -n", "LimitNOFILE"})
        CHECK_MESSAGE(mentions_part(error, part), error);
    CHECK(mentions_part(layout_error("clients = 3", {}, {.workers = 4}),
                        "--workers 4: there are 3 clients"));
    CHECK(mentions_part(layout_error("clients = 3", {.files = 51}), "ulimit -n 20000"));
}

TEST_CASE("files and memory of the whole machine are checked first") {
    CHECK(mentions_part(layout_error("clients = 50000", {.files = 20'000, .all_files = 40'000}),
                        "sysctl fs.file-max="));
    CHECK(mentions_part(layout_error("clients = 50000", {.files = 20'000, .memory = 100'000'000}),
                        "150 MB, and 100 MB are free"));
}

TEST_CASE("a machine's limits end a search, and other mistakes end the program") {
    CHECK_THROWS_AS(layout_of("clients = 50000", {.files = 20'000, .memory = 1}), LimitError);
    CHECK_THROWS_AS(layout_of("clients = 100000", {.files = 20'000}, {.workers = 3}), LimitError);
}

TEST_CASE("many clients are spread over enough source addresses") {
    const MachineLimits limits{.files = 20'000, .all_files = 4'000'000};
    CHECK(layout_of("clients = 15000", limits).sources == 16);
    CHECK(layout_of("clients = 1000000", limits).sources == 50);
    CHECK(layout_of("clients = 1000000", limits, {},
                    servers({"mqtt://127.0.0.1:1", "mqtt://127.0.0.1:2"}))
              .sources == 25);
    CHECK(layout_of("clients = 5", limits).sources == 5);

    CHECK(mentions_part(layout_error("clients = 1000000", limits, {.sources = 3}), "--sources 3"));
    CHECK(mentions_part(layout_error("clients = 1000000", limits, {.loopback = false}),
                        "ip_local_port_range"));
    CHECK(layout_of("clients = 20000", limits, {.loopback = false}).sources == 0);
}

TEST_CASE("several machines have their ports each") {
    const MachineLimits limits{.files = 20'000};
    const LayoutOptions elsewhere{.workers = 4, .loopback = false, .elsewhere = true};
    CHECK(layout_of("clients = 100000", limits, elsewhere).workers == 4);
    CHECK(
        mentions_part(layout_error("clients = 200000", limits, elsewhere), "ip_local_port_range"));
}

TEST_CASE("the backlog of the machine bounds the logins in progress") {
    const auto layout = layout_of("clients = 1000", {.files = 20'000, .backlog = 128});
    CHECK(layout.in_progress == 128);
    CHECK(mentions_part(layout.notes.at(0), "somaxconn"));
}

TEST_CASE("a duration too short for what is to be judged is extended aloud") {
    const auto layout = layout_of("clients = 100\nduration = 10s\nsilent = 5%", {.files = 20'000});
    CHECK(mentions_part(layout.notes.at(0), "the duration of 10 s"));
    CHECK(mentions_part(layout.notes.at(0), "41.1 s"));
    CHECK(layout_of("clients = 100\nduration = 10s", {.files = 20'000}).notes.empty());
}

TEST_CASE("without a number there are as many clients as fit into one process") {
    CHECK(usual_clients(15'000, {.files = 20'000}) == 15'000);
    CHECK(usual_clients(15'000, {.files = 1'024}) == 974);
}

TEST_CASE("groups connect as the first server wants, unless they say how") {
    auto scenario = scenario_with("clients = 10\n[group a]\n[group b]\ntransport = ws\n");
    settle_transports(scenario, servers({"mqtts://127.0.0.1:8883", "ws://127.0.0.1:80/mqtt"}));
    CHECK(scenario.groups[0].transport == TransportKind::tls);
    CHECK(scenario.groups[1].transport == TransportKind::ws);

    CHECK_THROWS_WITH_AS(settle_transports(scenario, servers({"mqtt://127.0.0.1"})),
                         doctest::Contains("group 'b' has transport = ws"), std::runtime_error);
}
