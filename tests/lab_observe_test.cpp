#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "loadgen/observe/command_text.h"
#include "loadgen/observe/description.h"
#include "loadgen/observe/metrics.h"
#include "loadgen/observe/own_load.h"
#include "loadgen/observe/presence_query.h"
#include "loadgen/observe/proc.h"
#include "loadgen/observe/server_process.h"
#include "tests/support/patience.h"
#include "tests/support/temporary_folder.h"

using namespace pulsegate::load;
using pulsegate::comes_true;
using pulsegate::TemporaryFolder;
using namespace std::chrono_literals;

TEST_CASE("listening sockets are read from the kernel's table") {
    const auto sockets = listening_sockets(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  "
        "timeout "
        "inode\n"
        "   0: 0100007F:075B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        "
        "0 "
        "9184805 1 0000000006c3dd4a 100 0 0 10 0\n"
        "   1: 0100007F:075B 0200007F:C350 01 00000000:00000000 00:00000000 00000000     0        "
        "0 "
        "77 1 0000000006c3dd4b 100 0 0 10 0\n"
        "   2: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A "
        "00000000:00000000 00:00000000 00000000  1000        0 42 1 0 100 0 0 10 0\n");
    REQUIRE(sockets.size() == 2);  // the second one is a connection
    CHECK(sockets[0].address == "127.0.0.1");
    CHECK(sockets[0].port == 1883);
    CHECK(sockets[0].inode == 9'184'805);
    CHECK(sockets[1].address == "::1");
    CHECK(sockets[1].port == 8080);
    CHECK(sockets[1].inode == 42);
}

TEST_CASE("lines that are no sockets are passed over") {
    for (const char* text :
         {"", "\n\n", "   0: 0100007F", "   0: 0100007F:ZZZZ 0:0 0A a b c d e 1",
          "   0: 01007F:075B 0:0 0A a b c d e 1", "   0: 0100007F:075B 0:0 0A a b c d e"}) {
        CAPTURE(text);
        CHECK(listening_sockets(text).empty());
    }
}

namespace {

// utime 250, stime 50 ticks; 6 threads; 3,000 pages resident
constexpr const char* stat_line =
    "4242 (a (b) c) S 1 4242 4242 0 -1 4194560 1000 0 0 0 250 50 0 0 20 0 6 0 12345 99999999 3000 "
    "18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0";

}  // namespace

TEST_CASE("a process's CPU, threads and memory are read whatever its name") {
    const auto stat = process_stat(stat_line, 100, 4096);
    REQUIRE(stat);
    CHECK(stat->cpu == 3s);
    CHECK(stat->threads == 6);
    CHECK(stat->memory == 3000 * 4096);
    CHECK_FALSE(process_stat("", 100, 4096));
    CHECK_FALSE(process_stat("4242 (cut) S 1 4242", 100, 4096));
    CHECK_FALSE(process_stat(stat_line, 0, 4096));
}

TEST_CASE("interrupts are part of all ticks, but not of what programs used") {
    const auto ticks = cpu_ticks("cpu  100 20 30 800 10 1 2 37 5 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n");
    REQUIRE(ticks);
    CHECK(ticks->busy == 150);
    CHECK(ticks->stolen == 37);
    CHECK(ticks->all == 1000);
    CHECK_FALSE(cpu_ticks("cpu0 100 20 30 800 10 1 2 37 5 0"));
    CHECK_FALSE(cpu_ticks("cpu  100 20"));
    CHECK_FALSE(cpu_ticks(""));
}

TEST_CASE("the wait for a core is the second number") {
    CHECK(waited_for_cpu("123456 57335 17\n") == Duration(57335ns));
    CHECK_FALSE(waited_for_cpu("123456"));
}

TEST_CASE("fields are found by their whole name") {
    constexpr const char* text =
        "MemTotalHuge: 1 kB\nMemTotal:       32855196 kB\nmodel name\t: X Y\n";
    CHECK(field_of(text, "MemTotal") == "32855196 kB");
    CHECK(field_of(text, "model name") == "X Y");
    CHECK(field_of(text, "Mem").empty());
}

TEST_CASE("metrics are read past comments and labels") {
    constexpr const char* text =
        "# HELP a A thing.\n# TYPE a gauge\na 1\n"
        "b{label=\"a } brace, a \\\" quote\",other=\"\"} 2.5 1700000000000\n"
        "c{} -3e2\n  d\t4\nbroken{label=\"x\nnothing\nnan_one NaN\nlast 5";
    const auto samples = metric_samples(text);
    REQUIRE(samples.size() == 5);
    CHECK(samples[0].name == "a");
    CHECK(samples[1].name == "b");
    CHECK(samples[1].value == 2.5);
    CHECK(samples[2].value == -300);
    CHECK(samples[3].value == 4);
    CHECK(samples[4].name == "last");
}

TEST_CASE("the connections of Pulsegate's shards are added, and the worst lag counts") {
    Measurements seen;
    CHECK(
        take_metrics("pulsegate_connections{shard=\"0\"} 10\n"
                     "pulsegate_connections{shard=\"1\"} 5\n"
                     "pulsegate_connections_accepted_total{shard=\"1\"} 99\n"
                     "pulsegate_loop_lag_last_seconds{shard=\"0\"} 0.001\n"
                     "pulsegate_loop_lag_last_seconds{shard=\"1\"} 0.007\n",
                     seen));
    CHECK(seen[Gauge::server_connections] == 15);
    CHECK(seen[Gauge::server_loop_lag] == 0.007);
}

TEST_CASE("metrics of another server are ignored") {
    Measurements seen;
    CHECK_FALSE(take_metrics("go_goroutines 12\n", seen));
    CHECK(seen.empty());
}

TEST_CASE("an address of metrics that can't be used is refused with the reason") {
    for (const char* url : {"https://127.0.0.1/metrics", "http://:80/metrics"})
        CHECK_THROWS_WITH(parse_metrics_url(url), "write the address as http://HOST:PORT/PATH");
    for (const char* url : {"http://127.0.0.1:99999/metrics", "http://127.0.0.1:x/metrics"})
        CHECK_THROWS_WITH(parse_metrics_url(url), "write a port from 1 to 65535");
    CHECK(parse_metrics_url("http://[::1]:8080") == "http://[::1]:8080/metrics");
    CHECK(parse_metrics_url("http://127.0.0.1/other") == "http://127.0.0.1/other");
}

TEST_CASE("an HTTP API is named by its address alone") {
    CHECK(parse_api_url("http://127.0.0.1:8080/") == "http://127.0.0.1:8080");
    for (const char* url :
         {"https://127.0.0.1", "http://127.0.0.1/metrics", "http://", "127.0.0.1"})
        CHECK_THROWS_WITH(parse_api_url(url), "write the API's address as http://HOST:PORT");
}

TEST_CASE("a user's presence is read from JSON, and from nothing else") {
    const auto presence =
        read_user_presence(R"({"user":"bob","state":"online","version":17,"devices":[]})");
    REQUIRE(presence);
    CHECK(presence->user == "bob");
    CHECK(presence->online);
    CHECK(presence->version == 17);
    for (const auto* wrong :
         {"", "[]", R"({"user":"bob"})", R"({"user":1,"state":"online","version":1})",
          R"({"user":"bob","state":"away","version":1})", R"({"user":"bob","state":2,"version":1})",
          R"({"user":"bob","state":"online","version":-1})"})
        CHECK_FALSE(read_user_presence(wrong));
}

TEST_CASE("presence is read from the answer of the API") {
    const auto users = users_in(
        R"({"users":[{"user":"ann","state":"online","version":17,"devices":[]},
                     {"user":"b\u00e4r","state":"offline","version":18}],"unknown":["eve"]})");
    REQUIRE(users.size() == 3);
    CHECK(users[0].user == "ann");
    CHECK(users[0].online);
    CHECK(users[0].version == 17);
    CHECK(users[1].user == "b\u00e4r");
    CHECK(!users[1].online);
    CHECK(users[2].user == "eve");
    CHECK(users[2].version == 0);
    for (const char* none : {"", "[]", "{}", R"({"users":[{"user":"x"}],"unknown":[]})"})
        CHECK_THROWS(users_in(none));
}

TEST_CASE("a question for presence gets an answer, or the reason why there is none") {
    PresenceQuery query("http://127.0.0.1:1", "");
    CHECK(!query.take());
    query.ask({"ann", "a/b"});
    std::optional<PresenceQuery::Answer> answer;
    REQUIRE(comes_true([&] {
        answer = query.take();
        return answer.has_value();
    }));
    CHECK(answer->trouble == "Connection refused");
    CHECK(!query.take());
}

TEST_CASE("this process and this machine can be described") {
    ServerProcess process(static_cast<std::uint32_t>(getpid()));
    const Time start{};
    Measurements first;
    REQUIRE(process.sample(start, first));
    CHECK(first[Gauge::server_cpu] < 0);  // since when?
    CHECK(first[Gauge::server_memory] > 1e6);
    CHECK(first[Gauge::server_threads] >= 1);
    CHECK(first[Gauge::server_files] >= 3);
    Measurements second;
    REQUIRE(process.sample(start + 1s, second));
    CHECK(second[Gauge::server_cpu] >= 0);
    CHECK_FALSE(process.command().empty());

    CHECK(describe_machine().cores >= 1);
    CHECK(describe_machine().memory > 1e6);
    CHECK(describe_machine().files > 0);
}

TEST_CASE("of the server's threads, the one that waited longest for a core counts") {
    const TemporaryFolder folder;
    const std::filesystem::path proc = folder.path("proc");
    const auto write = [&](const char* file, const char* text) {
        const auto path = proc / "42" / file;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
    };
    write("stat", stat_line);
    write("task/42/schedstat", "5000000000 1000000000 7\n");
    write("task/43/schedstat", "5000000000 2000000000 7\n");
    ServerProcess process(42, proc);
    Measurements first;
    REQUIRE(process.sample(Time{} + 1s, first));
    CHECK(first[Gauge::server_wait] < 0);  // since when?

    write("task/42/schedstat", "5000000000 2200000000 7\n");
    write("task/43/schedstat", "5000000000 2100000000 7\n");
    write("task/44/schedstat", "5000000000 9000000000 7\n");  // a new one
    Measurements second;
    REQUIRE(process.sample(Time{} + 3s, second));
    CHECK(second[Gauge::server_wait] == doctest::Approx(0.6));
}

TEST_CASE("a process that has ended is not seen") {
    Measurements seen;
    CHECK_FALSE(ServerProcess(0x7fff'fff0).sample(Time{}, seen));
    CHECK(seen.empty());
}

TEST_CASE("what a worker uses counts from its last look") {
    OwnLoad own(Time{});
    Measurements seen;
    own.sample(Time{}, seen);
    CHECK(seen.empty());
    own.sample(Time{} + 1000s, seen);
    CHECK(seen[Gauge::worker_cpu] >= 0);
    CHECK(seen[Gauge::worker_cpu] < 1);
    CHECK(seen[Gauge::worker_cpu_max] == seen[Gauge::worker_cpu]);
}

TEST_CASE("a command line is shown without its secrets") {
    const std::vector<std::string_view> words{
        "loadgen",      "--user", "u{n}",       "--password", "s3cret", "--jwt-secret-file=key",
        "--token-file", "token",  "--password", "--clients",  "5"};
    CHECK(command_text(words) ==
          "loadgen --user u{n} --password *** --jwt-secret-file=*** --token-file *** --password "
          "--clients 5");
}
