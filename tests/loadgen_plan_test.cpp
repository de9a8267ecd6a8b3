#include <doctest/doctest.h>

#include <stdexcept>

#include "loadgen/plan.h"

using namespace pulsegate::load;
using namespace std::chrono_literals;

namespace {

std::string complaint(const Options& options, const Machine& machine, bool loopback = true) {
    try {
        make_plan(options, loopback, machine);
    } catch (const std::runtime_error& error) {
        return error.what();
    }
    return "";
}

bool mentions(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the default run sends 3,000 packets a second from 15,000 clients") {
    const auto plan = make_plan({}, true, {.files = 20'000});
    CHECK(plan.clients == 15'000);
    CHECK(plan.limit == 30s);
    CHECK(plan.notes.empty());
    const double pings = (plan.clients - plan.silent_clients()) / 17.5;
    CHECK(plan.messages + pings == doctest::Approx(3000).epsilon(0.001));
}

TEST_CASE("a low file limit lowers the default aloud, with the remedy") {
    const auto plan = make_plan({}, true, {.files = 1024});
    CHECK(plan.clients == 974);
    REQUIRE(plan.notes.size() == 1);
    CHECK(mentions(plan.notes[0], "ulimit -n"));
}

TEST_CASE("more clients than files is an error that names option, limit and remedy") {
    Options options;
    options.clients = 100'000;
    const auto line = complaint(options, {.files = 20'000});
    for (const char* part : {"--clients 100000", "20000", "ulimit -n", "LimitNOFILE"})
        CHECK(mentions(line, part));
}

TEST_CASE("many clients are spread over enough source addresses") {
    Options options;
    options.clients = 1'000'000;
    const Machine machine{.files = 2'000'000};
    CHECK(make_plan(options, true, machine).sources == 50);

    options.sources = 3;
    CHECK(mentions(complaint(options, machine), "--sources 3"));
    CHECK(mentions(complaint(options, machine, false), "ip_local_port_range"));
}

TEST_CASE("the backlog of the machine bounds the logins in progress") {
    const auto plan = make_plan({}, true, {.files = 20'000, .backlog = 128});
    CHECK(plan.in_progress == 128);
    CHECK(mentions(plan.notes.at(0), "somaxconn"));
}

TEST_CASE("silent clients are as many as asked for, spread evenly") {
    for (const double fraction : {0.0, 0.01, 0.05, 0.29, 0.5, 1.0}) {
        Options options;
        options.clients = 100;
        options.silent = fraction;
        options.messages = 0;
        const auto plan = make_plan(options, true, {});
        std::uint32_t count = 0;
        for (std::uint32_t client = 0; client < plan.clients; ++client)
            count += plan.falls_silent(client) ? 1 : 0;
        CHECK(count == plan.silent_clients());
        CHECK(count == doctest::Approx(fraction * 100));
    }
}

TEST_CASE("messages need two talkers") {
    Options options;
    options.clients = 4;
    options.silent = 0.75;
    options.messages = 10;
    CHECK(mentions(complaint(options, {}), "--messages"));
    options.messages.reset();
    CHECK(make_plan(options, true, {}).messages == 0);
}

TEST_CASE("a run too short for the silent says that it will be longer") {
    Options options;
    options.clients = 100;
    options.duration = 10s;
    const auto plan = make_plan(options, true, {});
    CHECK(plan.judged_after() == 41s + 100ms);
    CHECK(mentions(plan.notes.at(0), "--duration 10 s"));
}

TEST_CASE("the storm takes some of the clients, and the others are established") {
    Options options;
    options.clients = 16'000;
    options.storm.count = 15'000;
    options.silent = 0.1;
    const auto plan = make_plan(options, true, {.files = 20'000});
    CHECK(plan.storm == 15'000);
    CHECK(plan.established() == 1'000);
    CHECK(plan.silent_clients() == 100);
    // All but the silent ping.
    CHECK(plan.messages + 15'900 / 17.5 == doctest::Approx(3000).epsilon(0.001));
}

TEST_CASE("a storm must leave clients to look at") {
    Options options;
    options.clients = 100;
    options.storm.fraction = 1;
    CHECK(mentions(complaint(options, {}), "--storm 100"));
    options.storm = {.count = 101};
    CHECK(mentions(complaint(options, {}), "--storm 101"));
    options.storm = {.count = 99};
    options.silent = 0;
    CHECK(make_plan(options, true, {}).messages == 0);
    options.messages = 10;
    CHECK(mentions(complaint(options, {}), "--storm"));
}

TEST_CASE("a run too short for the storm says that it will be longer") {
    Options options;
    options.clients = 100;
    options.silent = 0;
    options.storm = {.count = 50};
    CHECK(make_plan(options, true, {}).notes.empty());
    options.duration = 10s;
    CHECK(mentions(make_plan(options, true, {}).notes.at(0), "--duration 10 s"));
}
