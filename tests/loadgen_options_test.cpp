#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "loadgen/options.h"

using namespace pulsegate;
using namespace pulsegate::load;
using namespace std::chrono_literals;

namespace {

std::variant<Options, Answer> parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "pulsegate-loadgen");
    return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

Options options(std::vector<const char*> arguments) {
    return std::get<Options>(parse(std::move(arguments)));
}

/// The line that the user would read.
std::string complaint(std::vector<const char*> arguments) {
    try {
        parse(std::move(arguments));
    } catch (const std::runtime_error& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("the issue's command line is understood") {
    const auto o = options({"--connect", "mqtt://127.0.0.1:11883", "--clients", "300", "--ramp",
                            "500/s", "--keepalive", "4s", "--messages", "50/s", "--silent", "20%",
                            "--duration", "1.5m"});
    CHECK(o.connect.host == "127.0.0.1");
    CHECK(o.connect.port == 11883);
    CHECK(o.clients == 300u);
    CHECK(o.ramp == 500);
    CHECK(o.keepalive == 4s);
    CHECK(o.messages == 50.0);
    CHECK(o.silent == doctest::Approx(0.2));
    CHECK(o.duration == 90s);
}

TEST_CASE("without arguments the machine decides what was not said") {
    const auto o = options({});
    CHECK(o.connect.port == 1883);
    CHECK(o.keepalive == 20s);
    CHECK_FALSE(o.clients);
    CHECK_FALSE(o.messages);
    CHECK_FALSE(o.limit);
}

TEST_CASE("units may be left out where only one makes sense") {
    CHECK(options({"--ramp", "100"}).ramp == 100);
    CHECK(options({"--silent", "12.5"}).silent == doctest::Approx(0.125));
    CHECK(options({"--tolerance", "250ms"}).tolerance == 250ms);
    CHECK(options({"--mqtt-version", "5", "--qos", "1"}).version == Version::v5_0);
}

TEST_CASE("a storm is a number of clients or a part of them") {
    CHECK(options({}).storm.of(16'000) == 0);
    CHECK(options({"--storm", "15000"}).storm.of(16'000) == 15'000);
    CHECK(options({"--storm", "29%"}).storm.of(100) == 29);
    const auto o =
        options({"--storm-after", "5s", "--storm-within", "2m", "--storm-factor", "2.5"});
    CHECK(o.storm_after == 5s);
    CHECK(o.storm_within == 2min);
    CHECK(o.storm_factor == 2.5);
}

TEST_CASE("a server is named by its URL, with port 1883 if it says none") {
    CHECK(parse_address("mqtt://example.org").port == 1883);
    CHECK(parse_address("mqtt://[::1]:1884/").host == "::1");
    CHECK(parse_address("mqtt://[::1]:1884/").port == 1884);
    for (const char* wrong :
         {"", "mqtt://", "http://a", "127.0.0.1:1883", "mqtt://a:0", "mqtt://a:", "mqtt://a:65536",
          "mqtt://a:1x", "mqtt://[::1", "mqtt://a/b"})
        CHECK_THROWS_AS(parse_address(wrong), std::invalid_argument);
}

TEST_CASE("a wrong value is answered with the option and the remedy in one line") {
    const struct {
        const char* option;
        const char* value;
    } wrong[] = {
        {"--keepalive", "20"},
        {"--keepalive", "0s"},
        {"--keepalive", "1.5s"},
        {"--keepalive", "70000s"},
        {"--ramp", "0"},
        {"--ramp", "fast"},
        {"--ramp", "1.2.3/s"},
        {"--silent", "101%"},
        {"--clients", "0"},
        {"--clients", "-5"},
        {"--clients", "1e5"},
        {"--duration", "0s"},
        {"--duration", "soon"},
        {"--messages", "10/m"},
        {"--qos", "2"},
        {"--mqtt-version", "3"},
        {"--size", "31"},
        {"--connect", "ws://127.0.0.1"},
        {"--storm", "most"},
        {"--storm", "101%"},
        {"--storm", "-1"},
        {"--storm-after", "0s"},
        {"--storm-within", "5"},
        {"--storm-factor", "0.5"},
        {"--storm-factor", "5/s"},
        {"--storm-factor", "x"},
        {"--tolerance", "."},
        {"--in-progress", "0"},
        {"--duration", "99999999999h"},
    };
    for (const auto& [option, value] : wrong) {
        CAPTURE(option);
        CAPTURE(value);
        const auto line = complaint({option, value});
        CHECK(line.starts_with(std::string(option) + " '" + value + "': "));
        CHECK(line.find('\n') == std::string::npos);
    }
}

TEST_CASE("an unknown or repeated option is one line too") {
    for (const auto& arguments : std::vector<std::vector<const char*>>{
             {"--client", "5"}, {"--clients"}, {"--clients", "1", "--clients", "2"}, {"stray"}}) {
        const auto line = complaint(arguments);
        CHECK(line.find("--help") != std::string::npos);
        CHECK(line.find('\n') == std::string::npos);
    }
}

TEST_CASE("help names every option of the issue") {
    const auto text = std::get<Answer>(parse({"--help"})).text;
    for (const char* option : {"--connect", "--clients", "--ramp", "--keepalive", "--messages",
                               "--silent", "--duration", "--json"})
        CHECK(text.find(option) != std::string::npos);
}

TEST_CASE("quantities are shown as people read them") {
    CHECK(show(850us) == "850 µs");
    CHECK(show(12'340us) == "12.3 ms");
    CHECK(show(850ms) == "850 ms");
    CHECK(show(999'700us) == "1 s");
    CHECK(show(30s) == "30 s");
    CHECK(show(30'500ms) == "30.5 s");
    CHECK(show_count(7) == "7");
    CHECK(show_count(15000) == "15,000");
    CHECK(show_count(1234567) == "1,234,567");
    CHECK(show_rate(2186.2) == "2,186/s");
    CHECK(show_percent(0.125) == "12.5 %");
}
