#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "loadgen/net/http.h"
#include "tests/support/lab_stream.h"

namespace pulsegate {

using load::Clock;
using load::EndedBy;
using load::Loop;
using load::Stream;
using load::Time;

using Scene = StreamScene;

// -- TCP --

TEST_CASE("a stream connects, sends and receives, and knows when") {
    Scene scene;
    const Time before = Clock::now();
    LabConnection other = scene.connected();
    CHECK(scene.stream.tcp_connected_at() >= before);
    CHECK(scene.stream.before_send() == Time());

    scene.stream.send("hello");
    CHECK(scene.stream.before_send() >= scene.stream.tcp_connected_at());
    CHECK(scene.stream.after_send() >= scene.stream.before_send());
    CHECK(other.read(5) == "hello");

    other.write("welcome");
    CHECK(scene.run.until([&] { return scene.log.received == "welcome"; }));
    CHECK(scene.host.traffic.bytes_sent == 5);
    CHECK(scene.host.traffic.bytes_received == 7);
}

TEST_CASE("a stream connects from the source address that it is told") {
    Scene scene;
    const auto sources = load::loopback_sources(9);
    scene.stream.connect({.target = scene.peer.address(),
                          .source = &sources[8],
                          .host = scene.name,
                          .port = 0,
                          .path = scene.path});
    REQUIRE(scene.run.until([&] { return scene.log.opened == 1; }));
    LabConnection other = scene.peer.accept();
    sockaddr_in address{};
    socklen_t size = sizeof address;
    getpeername(other.number(), reinterpret_cast<sockaddr*>(&address), &size);
    CHECK(ntohl(address.sin_addr.s_addr) == INADDR_LOOPBACK + 8);
}

TEST_CASE("what the owner can't use yet comes again with more behind it") {
    Scene scene;
    LabConnection other = scene.connected();
    scene.log.takes = 4;
    other.write("abcde");
    CHECK(scene.run.until([&] { return scene.log.received == "abcd"; }));
    other.write("fgh");
    CHECK(scene.run.until([&] { return scene.log.received == "abcdefgh"; }));
}

TEST_CASE("bytes that the socket doesn't take are sent later, in order") {
    Scene scene;
    LabConnection other = scene.connected();
    std::string all;
    for (char letter = 'a'; letter <= 'z'; ++letter) {
        const std::string part(400'000, letter);
        scene.stream.send(part);
        all += part;
    }
    CHECK(scene.stream.unsent() > 0);
    std::string got;
    CHECK(scene.run.until([&] { return (got += other.waiting()).size() >= all.size(); }));
    CHECK_MESSAGE(got == all, "the bytes differ");
    CHECK(scene.stream.unsent() == 0);
}

TEST_CASE("a stream stops reading while its server reads nothing") {
    Scene scene;
    LabConnection other = scene.connected();
    while (scene.stream.unsent() <= Stream::most_unsent)
        scene.stream.send(std::string(1'000'000, 'x'));
    other.write("late");
    scene.run.settle();
    CHECK(scene.log.received.empty());
    CHECK(scene.run.until([&] {
        other.waiting();
        return scene.log.received == "late";
    }));
}

TEST_CASE("the last bytes of a server come before the end of the stream") {
    Scene scene;
    LabConnection other = scene.connected();
    other.write("farewell");
    other.finish();
    CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
    CHECK(scene.log.received == "farewell");
    CHECK(scene.log.by == EndedBy::close);
}

TEST_CASE("an end that comes while bytes are read is noticed") {
    Scene scene;
    LabConnection other = scene.connected();
    scene.log.on_bytes = [&] { other.finish(); };
    other.write("farewell");
    CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
    CHECK(scene.log.received == "farewell");
}

TEST_CASE("more than fits into a few reads is read to its end") {
    Scene scene;
    LabConnection other = scene.connected();
    const std::string much(8'000'000, 'm');
    std::thread writer([&] { other.write(much); });
    CHECK(scene.run.until([&] { return scene.log.received.size() == much.size(); }));
    writer.join();
}

TEST_CASE("a reset is a failure, and a refused connection too") {
    Scene scene;
    LabConnection other = scene.connected();
    other.reset();
    CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
    CHECK(scene.log.by == EndedBy::failure);
    CHECK(scene.log.cause == "Connection reset by peer");

    scene.peer.stop_listening();
    scene.connect();
    CHECK(scene.run.until([&] { return scene.log.ended == 2; }));
    CHECK(scene.log.cause == "Connection refused");
}

TEST_CASE(
    "bytes that the server sent before its reset are read, although a send has failed by then") {
    Scene scene;
    LabConnection other = scene.connected();
    scene.stream.send("unread");
    other.write("go away");
    other.close();  // a reset, since it leaves bytes unread
    scene.stream.send("too late");
    scene.stream.send("still too late");
    CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
    CHECK(scene.log.received == "go away");
    CHECK(scene.log.by == EndedBy::failure);
}

TEST_CASE("trouble of this machine is told as such, and not from within connect") {
    Scene scene;
    sockaddr_in elsewhere{};
    elsewhere.sin_family = AF_INET;
    elsewhere.sin_addr.s_addr = htonl(0xC0000201);  // 192.0.2.1: nobody's
    const load::SocketAddress source(reinterpret_cast<sockaddr*>(&elsewhere), sizeof elsewhere);
    scene.stream.connect({.target = scene.peer.address(),
                          .source = &source,
                          .host = scene.name,
                          .port = 0,
                          .path = scene.path});
    CHECK(scene.log.ended == 0);
    CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
    CHECK(scene.log.by == EndedBy::local);
}

TEST_CASE("a stream may be closed and connected again while it is told of bytes") {
    Scene scene;
    LabConnection other = scene.connected();
    scene.log.on_bytes = [&] {
        scene.stream.close();
        scene.connect();
        scene.log.on_bytes = [] {};
    };
    other.write("once");
    CHECK(scene.run.until([&] { return scene.log.opened == 2; }));
    CHECK(scene.log.ended == 0);
    CHECK(other.read(1).empty());
    LabConnection second = scene.peer.accept();
    second.write(" more");
    CHECK(scene.run.until([&] { return scene.log.received == "once more"; }));
}

TEST_CASE("a frozen stream neither reads nor writes, and tells when the server closes") {
    Scene scene;
    LabConnection other = scene.connected();
    scene.stream.freeze();
    other.write("are you there?");
    scene.run.settle();
    CHECK(scene.log.received.empty());
    CHECK(scene.log.ended == 0);
    other.finish();
    CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
    CHECK(scene.log.by == EndedBy::close);
}

TEST_CASE("an end that was announced together with the last bytes is told of a frozen stream") {
    Scene scene;
    LabConnection other = scene.connected();
    scene.log.on_bytes = [&] { scene.stream.freeze(); };
    other.write("farewell");
    other.finish();
    CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
}

TEST_CASE("a socket that is left half open is closed when the server closes it") {
    Scene scene;
    LabConnection other = scene.connected();
    scene.stream.leave_half_open();
    other.write("are you there?");
    scene.run.settle();
    CHECK(scene.host.half_open.size() == 1);
    CHECK(other.waiting().empty());
    other.finish();
    CHECK(scene.run.until([&] { return scene.host.half_open.size() == 0; }));
    CHECK(scene.log.ended == 0);
}

TEST_CASE("when too many sockets are left half open, the oldest is closed") {
    struct Idle : Loop::Handler {
        void ready(std::uint32_t) override {}
    };
    Loop loop;
    load::HalfOpenSockets half_open(loop, 2);
    std::array<Idle, 3> idle;
    std::vector<load::Descriptor> others;
    for (Idle& each : idle) {
        int ends[2];
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
        load::Descriptor one(ends[0]);
        others.emplace_back(ends[1]);
        REQUIRE(loop.watch(one.get(), each));
        half_open.take(std::move(one), each);
    }
    CHECK(half_open.size() == 2);
    CHECK(half_open.given_up() == 1);
    char byte = 0;
    CHECK(::recv(others[0].get(), &byte, 1, 0) == 0);
    CHECK(::recv(others[1].get(), &byte, 1, 0) == -1);
}

TEST_CASE("a stream that finishes sends everything first, and then waits for the server") {
    Scene scene;
    LabConnection other = scene.connected();
    std::size_t size = 0;
    while (scene.stream.unsent() == 0) {
        scene.stream.send(std::string(1'000'000, 'x'));
        size += 1'000'000;
    }
    scene.stream.send("the end");
    scene.stream.finish();
    other.write("unread");
    std::string got;
    CHECK(scene.run.until([&] { return (got += other.waiting()).size() >= size + 7; }));
    CHECK(got.ends_with("the end"));
    CHECK(other.read(1).empty());
    other.close();
    scene.run.settle();
    CHECK(scene.log.ended == 0);
}

TEST_CASE("a reader can be slowed down to some bytes at a time") {
    Scene scene;
    LabConnection other = scene.connected();
    scene.stream.read_at_most(3);
    other.write("abcdefgh");
    CHECK(scene.run.until([&] { return scene.log.received == "abc"; }));
    scene.run.settle();
    CHECK(scene.log.received == "abc");
    scene.stream.read_at_most(2);
    CHECK(scene.run.until([&] { return scene.log.received == "abcde"; }));
    scene.stream.read_at_most(Stream::unlimited);
    CHECK(scene.run.until([&] { return scene.log.received == "abcdefgh"; }));
}

TEST_CASE("a reader that has paused is told that the server closes") {
    Scene scene;
    LabConnection other = scene.connected();
    scene.stream.read_at_most(0);
    other.write("unread");
    other.finish();
    CHECK(scene.run.until([&] { return scene.log.ended == 1; }));
    CHECK(scene.log.received.empty());
}

// -- HTTP --

TEST_CASE("an HTTP request sends its body and token, and returns the answer's status and body") {
    LabPeer peer;
    std::string asked;
    std::thread server([&] {
        LabConnection other = peer.accept();
        asked = other.read_until(R"({"add":["ann"]})");
        other.write("HTTP/1.1 404 Not Found\r\nX: 1\r\n\r\nnone");
    });
    const auto answer = load::ask({.url = "http://127.0.0.1:" + std::to_string(peer.port()) + "/a",
                                   .body = R"({"add":["ann"]})",
                                   .token = "secret"});
    server.join();
    CHECK(answer.status == 404);
    CHECK(answer.body == "none");
    CHECK(asked.starts_with("POST /a HTTP/1.0\r\n"));
    CHECK(asked.find("\r\nAuthorization: Bearer secret\r\nContent-Length: 15\r\n\r\n") !=
          std::string::npos);
}

TEST_CASE("an HTTP request without an answer has the reason instead of a status") {
    const auto refused = load::ask({.url = "http://127.0.0.1:1/"});
    CHECK(refused.status == 0);
    CHECK(refused.body == "Connection refused");
    CHECK(load::ask({.url = "https://127.0.0.1/"}).status == 0);
}

}  // namespace pulsegate
