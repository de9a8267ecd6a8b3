#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "loadgen/lab/command_line.h"

using namespace pulsegate;
using namespace pulsegate::load;
using namespace std::chrono_literals;

namespace {

Command command(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "pulsegate-loadgen");
    return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

RunCommand run_command(std::vector<const char*> arguments) {
    return std::get<RunCommand>(command(std::move(arguments)));
}

Scenario scenario_for(std::vector<const char*> arguments) {
    const auto& request = run_command(std::move(arguments)).request;
    return parse_scenario(request.text, request.overrides, request.scale);
}

/// The line that the user would read.
std::string complaint_about(std::vector<const char*> arguments) {
    try {
        command(std::move(arguments));
    } catch (const std::runtime_error& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("options are shortcuts for settings of the scenario") {
    const auto scenario = scenario_for(
        {"--clients", "300", "--ramp",     "500/s", "--keepalive",    "4s", "--messages", "50/s",
         "--silent",  "20%", "--duration", "1.5m",  "--mqtt-version", "5",  "--qos",      "1",
         "--size",    "100", "--limit",    "7s",    "--storm-after",  "1s"});
    REQUIRE(scenario.groups.size() == 1);
    CHECK(scenario.groups[0].clients == 300);
    CHECK(scenario.groups[0].ramp == 500);
    CHECK(scenario.groups[0].keepalive == 4s);
    CHECK(scenario.groups[0].messages == 50);
    CHECK(scenario.groups[0].silent == doctest::Approx(0.2));
    CHECK(scenario.groups[0].version == Version::v5_0);
    CHECK(scenario.groups[0].qos[1] == 1);
    CHECK(scenario.groups[0].size.least == 100);
    CHECK(scenario.duration == 90s);
    CHECK(scenario.limit == 7s);
}

TEST_CASE("without arguments it is the default scenario on this machine's usual port") {
    const auto run = run_command({});
    CHECK(run.request.text.name == "keepalive");
    CHECK(run.request.overrides.empty());
    REQUIRE(run.request.target.servers.size() == 1);
    CHECK(url_of(run.request.target.servers[0]) == "mqtt://127.0.0.1:1883");
    CHECK(run.request.target.presence_topic);
    CHECK_FALSE(run.capacity);
}

TEST_CASE("--set holds over the other options, and the later one over the earlier") {
    CHECK(scenario_for({"--clients", "5", "--set", "clients=6"}).clients() == 6);
    CHECK(scenario_for({"--set", "clients=6", "--clients", "5"}).clients() == 6);
    CHECK(scenario_for({"--set", "clients=6", "--set", "clients=7"}).clients() == 7);
    CHECK(scenario_for({"chat", "--set", "phones.online=1s", "--set", "phones.away=1s"})
              .groups[1]
              .away.most == 1s);
    CHECK(scenario_for({"chat", "--scale", "0.5"}).clients() == 1000);
}

TEST_CASE("several servers are named in one option or in several") {
    const auto run = run_command({"--connect", "mqtt://a,ws://b/x", "--connect", "mqtts://c"});
    CHECK(run.request.target.servers.size() == 3);
    CHECK(run_command({"--connect", "mqtt://a", "chat"}).request.text.name == "chat");
}

TEST_CASE("a cluster has several servers") {
    CHECK(run_command({"--connect", "mqtt://a,mqtt://b", "--cluster"}).request.target.cluster);
    CHECK(complaint_about({"--connect", "mqtt://a", "--cluster"}) ==
          "--cluster: name at least two nodes with --connect URL,URL");
}

TEST_CASE("hostile clients are mixed into any scenario") {
    const auto scenario = scenario_for({"--hostile", "garbage=10", "--hostile", "duel=5"});
    REQUIRE(scenario.groups.size() == 3);
    CHECK(scenario.groups[1].hostile == Hostile::garbage);
    CHECK(scenario.groups[1].clients == 10);
    CHECK(scenario.groups[2].hostile == Hostile::duel);
    CHECK(scenario.clients() == 15'015);
    CHECK(scenario_for({"chat", "--hostile", "herd=10"}).groups.size() == 3);
}

TEST_CASE("there are as many hostile clients as were asked for, whatever --clients says") {
    CHECK(scenario_for({"--clients", "100", "--hostile", "half-open=10"}).clients() == 110);
    CHECK(scenario_for({"chat", "--clients", "10", "--hostile", "herd=3"}).groups[2].clients == 3);
    CHECK(scenario_for({"--scale", "0.5", "--hostile", "herd=10"}).groups[1].clients == 5);
    CHECK(scenario_for({"--hostile", "herd=10", "--set", "herd.clients=7"}).groups[1].clients == 7);
}

TEST_CASE("results that a command does not write are refused") {
    CHECK(complaint_about({"capacity", "--html", "x"}).starts_with("--html 'x': capacity writes"));
    CHECK(complaint_about({"compare", "a", "--json", "x"}).starts_with("--json 'x': compare"));
    CHECK(complaint_about({"compare", "a", "b", "c", "--repeats", "2"})
              .starts_with("--repeats '2': 3 files"));
    CHECK(complaint_about({"--json", "x", "plan", "10", "a"}).starts_with("plan prints text only"));
}

TEST_CASE("a search for the capacity takes the options of a run") {
    const auto run = run_command({"capacity", "chat", "--clients", "70", "--objective", "p99=20ms",
                                  "--repeats", "5", "--from", "0.5"});
    REQUIRE(run.capacity);
    CHECK(run.capacity->run.text.name == "chat");
    CHECK(run.capacity->run.overrides.size() == 1);
    CHECK(run.capacity->objectives.p99 == 20ms);
    CHECK(run.capacity->search.repeats == 5);
    CHECK(run.capacity->search.first == 0.5);
}

TEST_CASE("results are compared and extrapolated") {
    const auto compare =
        std::get<CompareCommand>(command({"compare", "a.json", "b.json", "--html", "x.html"}));
    CHECK(compare.files.size() == 2);
    CHECK(compare.html == "x.html");
    CHECK(compare.repeats == 1);
    CHECK_FALSE(compare.most_worse);
    const auto repeated = std::get<CompareCommand>(
        command({"compare", "--repeats", "2", "--worse", "150%", "a", "b", "c", "d"}));
    CHECK(repeated.files.size() == 4);
    CHECK(repeated.repeats == 2);
    CHECK(repeated.most_worse == 1.5);
    const auto paper = std::get<PaperCommand>(command({"plan", "1000000", "a.json", "b.json"}));
    CHECK(paper.clients == 1e6);
    CHECK(paper.files.size() == 2);
}

TEST_CASE("workers of several machines need each other and a token") {
    const auto run =
        run_command({"--coordinator-listen", "7000", "--workers", "3", "--token-file", "t"});
    REQUIRE(run.remote);
    CHECK(run.remote->port == 7000);
    CHECK(run.remote->host.empty());
    CHECK(run.remote->count == 3);
    CHECK(
        run_command({"--coordinator-listen", "10.0.0.1:7000", "--token-file", "t"}).remote->host ==
        "10.0.0.1");
    const auto worker = std::get<WorkerCommand>(
        command({"--worker", "--coordinator", "a:7000", "--token-file", "t"}));
    CHECK(worker.host == "a");
    CHECK(worker.port == 7000);
    CHECK(complaint_about({"--coordinator-listen", "7000"}).find("--token-file") !=
          std::string::npos);
    CHECK(complaint_about({"--worker"}).find("--coordinator HOST:PORT") != std::string::npos);
}

TEST_CASE("a bad value is an error of one line that names option, value and remedy") {
    const struct {
        std::vector<const char*> arguments;
        const char* line;
    } mistakes[]{
        {{"--clients", "many"}, "--clients 'many': write a whole number"},
        {{"--clients", "0"}, "--clients '0': write a number from 1"},
        {{"--keepalive", "20"}, "--keepalive '20': write a time with its unit"},
        {{"--qos", "3"}, "--qos '3': write 0, 1 or 2"},
        {{"--mqtt-version", "4.1"}, "--mqtt-version '4.1': write 3.1.1 or 5"},
        {{"--messages", "10", "--clients", "1"}, "--messages '10': messages need two talking"},
        {{"--storm", "101", "--clients", "100"}, "--storm '101': the group has 100 clients"},
        {{"--connect", "http://x"}, "--connect 'http://x': write the server's address as mqtt://"},
        {{"--presence", "where"}, "--presence 'where': write topic, or"},
        {{"--set", "x"}, "--set 'x': write key=value"},
        {{"--scale", "0"}, "--scale '0': write a factor above 0"},
        {{"--hostile", "duel"}, "--hostile 'duel': write a kind and a number"},
        {{"--workers", "0"}, "--workers '0': write a number from 1 to 1000"},
        {{"capacity", "--objective", "p98=1s"}, "--objective 'p98=1s': write objectives such as"},
        {{"plan", "many", "a.json"}, "plan 'many': write a whole number"},
        {{"--metrics", "127.0.0.1:8080/metrics"},
         "--metrics '127.0.0.1:8080/metrics': write the address as http://HOST:PORT"},
        {{"--metrics", "https://a/metrics"}, "--metrics 'https://a/metrics': write the address"},
        {{"--metrics", "http://a:0/metrics"}, "--metrics 'http://a:0/metrics': write a port from"},
        {{"--metrics", "http:///metrics"}, "--metrics 'http:///metrics': write the address"},
        {{"--http-rate", "5"}, "--http-rate: there is no HTTP API to ask; name it"},
        {{"--http-token-file", "t"}, "--http-token-file: there is no HTTP API to ask"},
        {{"--scale", "1000"}, "15000 times 1000 is more than 10,000,000"},
        {{"--hostile", "herd=9000000", "--hostile", "duel=9000000"},
         "the scenario has more than 10,000,000 clients"},
        {{"nonsense"}, "no scenario 'nonsense'"},
    };
    for (const auto& mistake : mistakes) {
        const auto line = complaint_about(mistake.arguments);
        CHECK_MESSAGE(line.starts_with(mistake.line), line);
    }
}

TEST_CASE("a number too large for any type is a bad value as well") {
    const std::string digits(400, '9');
    CHECK(complaint_about({"--ramp", digits.c_str()}).find("write a rate") != std::string::npos);
}

TEST_CASE("a scenario of ours starts as many clients as fit, unless their number was said") {
    MachineLimits limits;
    limits.files = 1050;
    auto request = run_command({"--hostile", "herd=10"}).request;
    CHECK(lower_clients(request, limits).starts_with("1,000 clients instead of 15,010"));
    CHECK(parse_scenario(request.text, request.overrides, 2).clients() == 2020);
    CHECK(lower_clients(request, limits).empty());
    request = run_command({"--clients", "3000"}).request;
    CHECK(lower_clients(request, limits).empty());
}

TEST_CASE("scenarios are listed and shown, and what is shown can be run") {
    CHECK(std::get<Printout>(command({"--scenarios"})).text.find("keepalive") != std::string::npos);
    const auto text = std::get<Printout>(command({"--show", "chat"})).text;
    CHECK(parse_scenario({"copy", "copy.scenario", text}).clients() == 2000);
}

TEST_CASE("kill has options of its own") {
    const auto options =
        std::get<KillCommand>(command({"kill", "--kills", "3", "--port", "1884", "--json", "a.json",
                                       "--", "mosquitto", "-c", "mosquitto.conf"}))
            .options;
    CHECK(options.kills == 3);
    CHECK(options.nodes.at(0).port == 1884);
    CHECK(options.http == 0);
    CHECK(options.json == "a.json");
    CHECK(options.command == std::vector<std::string>{"mosquitto", "-c", "mosquitto.conf"});
    CHECK(complaint_about({"--json", "a.json", "kill", "--", "true"}) ==
          "kill: write its options, such as --json, after it");
}

TEST_CASE("kill's options take the quantities of the others, and name the remedy") {
    const auto options =
        std::get<KillCommand>(
            command({"kill", "--gateway", "/proc/self/exe", "--cluster", "redis://127.0.0.1:6379",
                     "--edges", "--rate", "600/s", "--version", "5", "--without", "qos1,presence",
                     "--without", "wills", "--host", "::1"}))
            .options;
    CHECK(options.rate == 600);
    CHECK(options.v5_0);
    CHECK_FALSE(options.v3_1_1);
    CHECK_FALSE(options.presence);
    CHECK(options.kinds.count(pulsegate::kill::Kind::qos_1) == 0);
    CHECK(options.kinds.count(pulsegate::kill::Kind::will) == 0);
    CHECK(options.kinds.count(pulsegate::kill::Kind::qos_2) == 1);
    REQUIRE(options.nodes.size() == 2);
    CHECK(options.mqtt_url(1) == "mqtt://[::1]:1884");
    CHECK(options.http_url(1) == "http://[::1]:8081");
    CHECK(complaint_about({"kill", "--kills", "many", "--", "true"}) ==
          "--kills 'many': write a whole number, such as 15000");
    CHECK(complaint_about({"kill", "--rate", "0", "--", "true"}) ==
          "--rate '0': write a rate from 0.1 to 1000000/s");
    CHECK(complaint_about({"kill", "--version", "3", "--", "true"}) ==
          "--version '3': write 5, 3.1.1 or both");
    CHECK(complaint_about({"kill", "--host", "192.0.2.1", "--", "true"}) ==
          "--host '192.0.2.1': write a loopback address: the broker is started here");
}

TEST_CASE("without a command kill starts a gateway with an HTTP API") {
    const auto options =
        std::get<KillCommand>(command({"kill", "--gateway", "/proc/self/exe"})).options;
    CHECK(options.command.empty());
    CHECK(options.gateway == "/proc/self/exe");
    CHECK(options.http == 8080);
}
