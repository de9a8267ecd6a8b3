#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "loadgen/lab/clock_offset.h"
#include "loadgen/lab/conductor.h"
#include "loadgen/lab/control_link.h"
#include "loadgen/lab/frames.h"
#include "loadgen/lab/token.h"
#include "loadgen/lab/work_order.h"
#include "loadgen/lab/worker.h"
#include "loadgen/lab/worker_listener.h"
#include "loadgen/lab/worker_pool.h"
#include "loadgen/net/address.h"
#include "loadgen/net/interruption.h"
#include "loadgen/scenario/parser.h"
#include "tests/support/patience.h"

namespace json = boost::json;
using namespace pulsegate;
using namespace pulsegate::load;
using namespace std::chrono_literals;
using Phase = Conductor::Phase;

namespace {

json::value measured_json(Count count, std::uint64_t many) {
    Measurements measurements;
    measurements.add(count, many);
    return to_json(measurements);
}

json::object sample_message(std::uint32_t second, Count count, std::uint64_t many) {
    return {{"type", "sample"},
            {"seconds", json::array{json::object{{"second", second},
                                                 {"measurements", measured_json(count, many)}}}}};
}

/// A conductor with two workers that are played by the test.
class Play {
public:
    explicit Play(const char* scenario = "clients = 10\nmessages = 10/s\nduration = 5s")
        : conductor(parse_scenario({"test", "test.scenario", scenario}), {"worker 0", "worker 1"},
                    {[this](std::uint32_t worker, const json::object& message) {
                         told.push_back(std::to_string(worker) + " " +
                                        std::string(message.at("type").as_string()));
                     },
                     [this](std::uint32_t worker, std::string_view flows) {
                         told.push_back(std::to_string(worker) + " flows " +
                                        std::string(flows.substr(4)));
                     }},
                    now) {}

    void say(std::uint32_t worker, json::object message) { conductor.heard(worker, message, now); }
    void say(std::uint32_t worker, const char* type) { say(worker, json::object{{"type", type}}); }
    void both_say(const char* type) {
        say(0, type);
        say(1, type);
    }

    /// An answer to another phase, which only shows that the worker is alive.
    const char* alive() const { return conductor.phase() == Phase::preparing ? "ramped" : "ready"; }

    /// Time passes, and the workers show that they are alive.
    void wait(Duration duration) {
        for (const Time end = now + duration; now < end;) {
            now = std::min(now + 100ms, end);
            both_say(alive());
            conductor.tick(now);
        }
    }

    std::vector<std::string> take_told() { return std::exchange(told, {}); }

    Time now = Time(1h);
    std::vector<std::string> told;
    Conductor conductor;
};

using Told = std::vector<std::string>;

/// A worker of another machine, which says so with this token and tells the time when it is asked.
/// Returns the last that it was told before the coordinator closed the connection.
std::string knock(std::uint16_t port, std::string_view token) {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
    const auto address = resolve("127.0.0.1", port).at(0);
    REQUIRE(::connect(socket.get(), address.get(), address.size()) == 0);
    ControlLink link(std::move(socket));
    link.send(FrameKind::token, token);
    std::string last;
    for (bool alive = true; alive;) {
        pollfd polled{link.fd(), POLLIN, 0};
        alive = ::poll(&polled, 1, test_patience_ms) > 0 && link.move();
        while (const auto frame = link.next()) {
            last = frame->body;
            if (last != R"({"type":"time"})") continue;
            link.send(FrameKind::json,
                      json::serialize(json::object{
                          {"type", "time"}, {"now", Clock::now().time_since_epoch().count()}}));
        }
    }
    return last;
}

}  // namespace

TEST_CASE("frames are cut out of a stream, wherever its pieces end") {
    std::string stream;
    append_frame(stream, FrameKind::json, "{}");
    append_frame(stream, FrameKind::flows, std::string("\0\0\0\1abc", 7));
    append_frame(stream, FrameKind::token, "");
    for (std::size_t size = 1; size <= stream.size(); ++size) {
        FrameReader reader;
        std::vector<Frame> frames;
        for (std::size_t at = 0; at < stream.size(); at += size) {
            reader.add(as_bytes(std::string_view(stream).substr(at, size)));
            while (auto frame = reader.next()) frames.push_back(*frame);
        }
        REQUIRE(frames.size() == 3);
        CHECK(frames[0].body == "{}");
        CHECK(frames[1].kind == FrameKind::flows);
        CHECK(receiver_of(frames[1].body) == 1u);
        CHECK(frames[2].kind == FrameKind::token);
    }
}

TEST_CASE("a malformed frame, or one too large for an unknown caller, breaks the stream") {
    FrameReader reader(10);
    reader.add(as_bytes(std::string_view("\0\0\0\2X{}", 7)));
    CHECK_FALSE(reader.next());
    CHECK(reader.broken());

    std::string stream;
    append_frame(stream, FrameKind::token, "12345678901");
    FrameReader limited(10);
    limited.add(as_bytes(stream));
    CHECK_FALSE(limited.next());
    CHECK(limited.broken());
    CHECK_FALSE(receiver_of("abc"));
}

TEST_CASE(
    "a link moves frames larger than the socket's buffer, and notices that the peer is gone") {
    std::array<int, 2> ends{};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
    ControlLink one{Descriptor(ends[0])};
    std::string large(3'000'000, 'x');
    {
        ControlLink other{Descriptor(ends[1])};
        other.send(FrameKind::json, large);
        CHECK(other.wants_to_write());
        std::optional<Frame> frame;
        for (int turn = 0; turn < 10'000 && !frame; ++turn) {
            CHECK(other.move());
            CHECK(one.move());
            frame = one.next();
        }
        REQUIRE(frame);
        CHECK((frame->body == large));
        other.send(FrameKind::token, "last");
    }
    CHECK_FALSE(one.move());
    CHECK(one.next()->body == "last");
}

TEST_CASE("a token is accepted only if it is the same") {
    CHECK(same_token("0123456789abcdef", "0123456789abcdef"));
    CHECK_FALSE(same_token("0123456789abcdeF", "0123456789abcdef"));
    CHECK_FALSE(same_token("0123456789abcde", "0123456789abcdef"));
    CHECK_FALSE(same_token("0123456789abcdef0", "0123456789abcdef"));
    CHECK_FALSE(same_token("", "0123456789abcdef"));
    CHECK_THROWS_WITH_AS(read_token("/nonexistent"), doctest::Contains("--token-file"),
                         std::runtime_error);
}

TEST_CASE("a caller with a wrong token is told so and disconnected, and the others are let in") {
    Interruption interruption;
    WorkerListener listener({"127.0.0.1", 0, "0123456789abcdef", 1});
    std::string refused, welcome;
    std::thread workers([&] {
        refused = knock(listener.port(), "0123456789abcdeX");
        welcome = knock(listener.port(), "0123456789abcdef");
    });
    {
        const auto arrival = listener.next(interruption);
        CHECK(arrival.address == "127.0.0.1");
        CHECK(std::chrono::abs(arrival.clock.offset()) <= arrival.clock.error());  // it is the same
    }
    workers.join();
    CHECK(refused.find("refused") != std::string::npos);
    CHECK(welcome == R"({"type":"time"})");
}

TEST_CASE("callers that keep silent don't keep a worker out") {
    Interruption interruption;
    WorkerListener listener({"127.0.0.1", 0, "0123456789abcdef", 1});
    const auto address = resolve("127.0.0.1", listener.port()).at(0);
    std::string welcome;
    std::thread workers([&] {
        std::vector<Descriptor> silent;
        for (int count = 0; count < 100; ++count) {
            silent.emplace_back(::socket(AF_INET, SOCK_STREAM, 0));
            if (::connect(silent.back().get(), address.get(), address.size()) != 0) return;
        }
        welcome = knock(listener.port(), "0123456789abcdef");
    });
    const Time begun = Clock::now();
    {
        const auto arrival = listener.next(interruption);
        CHECK(Clock::now() - begun < 9500ms);  // it waits 10 s for a caller to speak
    }
    workers.join();
    CHECK(welcome == R"({"type":"time"})");
}

TEST_CASE("the fastest of several exchanges gives the best estimate of another clock") {
    ClockOffset clock;
    const Time ours{100s};
    clock.add(ours, Time(40s + 9ms), ours + 20ms);
    clock.add(ours, Time(40s + 1ms), ours + 2ms);
    clock.add(ours, Time(40s + 3ms), ours + 30ms);
    CHECK(clock.offset() == 60s);
    CHECK(clock.error() == 1ms);
}

TEST_CASE("a plan reaches a worker as it was made") {
    WorkOrder order;
    order.text = {"mine", "mine.scenario", "clients = 10\n[group a]\n", false};
    order.overrides = {"clients=20", "a.keepalive=7s"};
    order.scale = 2;
    order.target.servers = {parse_server("mqtt://127.0.0.1:1"), parse_server("ws://[::1]:2/x")};
    order.target.cluster = true;
    order.target.identity.user = "u{n}";
    order.target.insecure = true;
    order.target.http = "http://[::1]:3";
    order.target.http_rate = 2.5;
    order.worker = 1;
    order.workers = 3;
    order.run = 0xfedcba9876543210;
    order.seed = 0xffffffffffffffff;
    order.clock_offset = -5ns;
    const auto assignment = assignment_of(work_order_from(to_json(order)));
    CHECK(assignment.scenario.clients() == 40);
    CHECK(assignment.scenario.groups[0].keepalive == 7s);
    CHECK(assignment.target.servers[1].path == "/x");
    CHECK(assignment.target.cluster);
    CHECK(assignment.target.identity.user == "u{n}");
    CHECK(assignment.target.insecure);
    CHECK(assignment.target.http == "http://[::1]:3");
    CHECK(assignment.target.http_rate == 2.5);
    CHECK(assignment.worker == 1);
    CHECK(assignment.run == order.run);
    CHECK(assignment.seed == order.seed);
    CHECK(assignment.clock_offset == -5ns);

    order.workers = 1;
    CHECK_THROWS_AS(work_order_from(to_json(order)), std::runtime_error);
}

TEST_CASE("a run goes through its phases when all workers are ready for the next") {
    Play play;
    play.say(0, "ready");
    CHECK(play.take_told() == Told{});
    play.say(1, "ready");
    CHECK(play.take_told() == Told{"0 start", "1 start"});
    play.both_say("ramped");
    CHECK(play.take_told() == Told{"0 go", "1 go"});
    play.both_say("settled");
    CHECK(play.take_told() == Told{});  // not before the duration is over
    play.wait(5300ms);
    CHECK(play.take_told() == Told{"0 drain", "1 drain"});
    play.say(0, sample_message(0, Count::messages_sent, 50));
    play.wait(5s);
    CHECK(play.take_told() == Told{"0 flows", "1 flows"});
    play.conductor.heard_flows(0, std::string("\0\0\0\1totals", 10));
    play.both_say("flows-sent");
    CHECK(play.take_told() == Told{"1 flows totals", "0 judge", "1 judge"});
    play.say(0, json::object{{"type", "done"}, {"examples", json::array{"message 1 was lost"}}});
    play.say(1, json::object{{"type", "done"}, {"examples", json::array{"message 1 was lost"}}});
    CHECK(play.take_told() == Told{"0 end", "1 end"});
    CHECK(play.conductor.phase() == Phase::over);
    CHECK(play.conductor.failure().empty());
    CHECK(play.conductor.examples() == Told{"message 1 was lost"});

    REQUIRE(play.conductor.marks().size() == 2);
    CHECK(play.conductor.marks()[0].text == marks::go);
    CHECK(play.conductor.marks()[1].text == marks::drain);
    CHECK(play.conductor.marks()[1].at > play.conductor.marks()[0].at + 4);
}

TEST_CASE("what workers measured in a second is added up") {
    Play play;
    play.both_say("ready");
    play.say(0, sample_message(7, Count::messages_sent, 3));
    play.say(1, sample_message(7, Count::messages_sent, 4));
    play.say(1, sample_message(8, Count::messages_sent, 5));
    CHECK(play.conductor.series().at(7)[Count::messages_sent] == 7);
    CHECK(play.conductor.series().at(8)[Count::messages_sent] == 5);
    CHECK(play.conductor.totals()[Count::messages_sent] == 12);
}

TEST_CASE("the drain ends when every message has arrived") {
    Play play;
    play.both_say("ready");
    play.both_say("ramped");
    play.say(0, sample_message(1, Count::messages_sent, 5));
    play.both_say("settled");
    play.wait(5300ms);
    REQUIRE(play.conductor.phase() == Phase::draining);
    play.both_say("drained");
    play.wait(600ms);
    play.say(0, sample_message(6, Count::messages_received, 2));
    play.say(1, sample_message(6, Count::messages_received, 2));
    play.wait(200ms);
    CHECK(play.conductor.phase() == Phase::draining);
    play.say(1, sample_message(6, Count::messages_received, 1));
    play.wait(200ms);
    CHECK(play.conductor.phase() == Phase::totalling);
}

TEST_CASE("silent clients extend a run, for a bounded time") {
    Play play("clients = 10\nsilent = 50%\nkeepalive = 10s\nduration = 5s");
    play.both_say("ready");
    play.both_say("ramped");
    play.wait(15s);
    CHECK(play.conductor.phase() == Phase::running);
    play.wait(12s);  // 5 s until the last falls silent, 15 s limit, a tick, 5 s of patience
    CHECK(play.conductor.phase() == Phase::draining);
}

TEST_CASE("a worker that dies ends the run, by name, and the others are told") {
    Play play;
    play.both_say("ready");
    play.take_told();
    play.conductor.lost(1, "was killed by signal 9");
    CHECK(play.conductor.phase() == Phase::over);
    CHECK(play.conductor.failure().starts_with("worker 1 was killed by signal 9"));
    CHECK(play.take_told() == Told{"0 end", "1 end"});
}

TEST_CASE("a worker that can't begin says why") {
    Play play;
    play.say(1, json::object{{"type", "error"}, {"text", "--users 'x': no such file"}});
    CHECK(play.conductor.failure() == "worker 1: --users 'x': no such file");
}

TEST_CASE("a message that the coordinator does not know ends the run, and is named") {
    Play play;
    play.say(1, "dance");
    CHECK(play.conductor.failure() ==
          "worker 1 sent 'dance', which the coordinator does not know; is it of another version?");
}

TEST_CASE("a worker names an order that it does not know") {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    std::thread worker([&] { work_for_parent(ends[1]); });
    std::string answer;
    {
        ControlLink link{Descriptor(ends[0])};
        for (const char* type : {"dance", "time"})
            link.send(FrameKind::json, json::serialize(json::object{{"type", type}}));
        for (bool alive = true; alive && answer.empty();) {
            pollfd polled{link.fd(), POLLIN, 0};
            alive = ::poll(&polled, 1, 60'000) > 0 && link.move();
            if (const auto frame = link.next()) answer = frame->body;
        }
    }  // the worker is left, and ends
    worker.join();
    CHECK(answer == R"({"type":"error","text":"it does not know the order 'dance'; )"
                    R"(is the coordinator of another version?"})");
}

TEST_CASE("a worker that does not answer is named, in every phase") {
    SUBCASE("getting ready") {
        Play play;
        play.say(0, "ready");
        play.wait(61s);
        CHECK(play.conductor.failure().starts_with("worker 1 did not finish getting ready"));
    }
    SUBCASE("totals") {
        Play play;
        play.both_say("ready");
        play.both_say("ramped");
        play.both_say("settled");
        play.wait(11s);
        REQUIRE(play.conductor.phase() == Phase::totalling);
        play.say(1, "flows-sent");
        play.wait(121s);
        CHECK(play.conductor.failure().starts_with("worker 0 did not finish adding up"));
    }
    SUBCASE("silence") {
        Play play;
        play.both_say("ready");
        for (int second = 0; second < 31; ++second) {
            play.now += 1s;
            play.say(0, play.alive());
            play.conductor.tick(play.now);
        }
        CHECK(play.conductor.failure().starts_with("worker 1 has said nothing for 31 s"));
    }
}

TEST_CASE("a ramp that takes too long ends with a note") {
    Play play;
    play.both_say("ready");
    play.wait(121s);
    CHECK(play.conductor.phase() == Phase::running);
    CHECK(play.conductor.notes().size() == 1);
}

TEST_CASE("an interrupted run drains, judges and reports") {
    Play play;
    play.both_say("ready");
    play.both_say("ramped");
    play.wait(1s);
    play.take_told();
    play.conductor.interrupt(play.now);
    CHECK(play.take_told() == Told{"0 stop", "1 stop"});
    CHECK(play.conductor.interrupted());
    play.wait(5s);
    play.both_say("flows-sent");
    play.both_say("done");
    CHECK(play.conductor.phase() == Phase::over);
    CHECK(play.conductor.failure().empty());
}

TEST_CASE("messages that can't be understood end the run instead of the program") {
    for (const auto& message :
         {json::object{{"type", "sample"}}, json::object{{"type", "sample"}, {"seconds", 3}},
          json::object{{"type", "mark"}, {"at", "soon"}},
          json::object{{"type", "sample"},
                       {"seconds", json::array{json::object{{"second", -1}}}}}}) {
        Play play;
        play.say(0, message);
        CHECK(play.conductor.failure().starts_with(
            "worker 0 sent a message that can't be understood"));
    }
    Play play;
    play.both_say("ready");
    play.both_say("ramped");
    play.wait(30s);
    REQUIRE(play.conductor.phase() == Phase::totalling);
    play.conductor.heard_flows(0, std::string("\0\0\0\7", 4));
    CHECK(play.conductor.failure() == "worker 0 sent totals for a worker that does not exist");
}
