#include "server/loop/poller.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace pulsegate;

namespace {

/// One end of a connection that is watched, and the other one.
struct Watched final : Polled {
    explicit Watched(Poller& its_poller) : poller(its_poller) {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) ==
                0);
        own = UniqueFd(ends[0]);
        peer = UniqueFd(ends[1]);
    }

    void on_ready(Readiness ready) override {
        heard.push_back(ready);
        if (then) then();
    }

    void say(const std::string& bytes) const {
        REQUIRE(::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(bytes.size()));
    }

    /// What it has heard since it was asked last.
    std::vector<Readiness> news() {
        poller.poll();
        poller.dispatch();
        return std::exchange(heard, {});
    }

    Poller& poller;
    UniqueFd own;
    UniqueFd peer;
    std::vector<Readiness> heard;
    std::function<void()> then;
};

}  // namespace

TEST_CASE("bytes are told once, and more of them again, though none have been read") {
    Poller poller;
    Watched watched(poller);
    REQUIRE(poller.add(watched.own.get(), watched));
    CHECK(watched.news().empty());
    watched.say("a");
    const auto news = watched.news();
    REQUIRE(news.size() == 1);
    CHECK(news[0].readable);
    CHECK_FALSE(news[0].more_behind);
    CHECK(watched.news().empty());
    watched.say("b");
    CHECK(watched.news().size() == 1);
}

TEST_CASE("events of a closed socket are not reported, even if another process has it, too") {
    Poller poller;
    Watched watched(poller);
    REQUIRE(poller.add(watched.own.get(), watched));
    const UniqueFd of_another_process(::dup(watched.own.get()));
    poller.close(std::move(watched.own), watched);
    watched.say("a");
    CHECK(watched.news().empty());
}

TEST_CASE("events from before the registration are reported as well") {
    Poller poller;
    Watched watched(poller);
    watched.say("a");
    REQUIRE(poller.add(watched.own.get(), watched));
    CHECK(watched.news().size() == 1);
}

TEST_CASE("the end of what the peer sends is to be read, behind its last bytes") {
    Poller poller;
    Watched watched(poller);
    REQUIRE(poller.add(watched.own.get(), watched));
    watched.say("a");
    REQUIRE(::shutdown(watched.peer.get(), SHUT_WR) == 0);
    const auto news = watched.news();
    REQUIRE(news.size() == 1);
    CHECK(news[0].readable);
    CHECK(news[0].more_behind);
}

TEST_CASE("a writer is called when there is room, and not before") {
    Poller poller;
    Watched watched(poller);
    REQUIRE(poller.add(watched.own.get(), watched));
    const std::string much(64 * 1024, 'x');
    std::size_t sent = 0;
    while (true) {
        const auto taken = ::send(watched.own.get(), much.data(), much.size(), MSG_NOSIGNAL);
        if (taken < 0) break;
        sent += static_cast<std::size_t>(taken);
    }
    poller.want_to_write(watched.own.get(), watched);
    CHECK(watched.news().empty());
    std::string bytes(sent, '\0');
    for (std::size_t got = 0; got < sent;)
        got += static_cast<std::size_t>(::recv(watched.peer.get(), bytes.data(), sent - got, 0));
    const auto news = watched.news();
    REQUIRE(!news.empty());
    CHECK(news[0].writable);
}

TEST_CASE("a writer is called at once if there is room already") {
    Poller poller;
    Watched watched(poller);
    REQUIRE(poller.add(watched.own.get(), watched));
    poller.want_to_write(watched.own.get(), watched);
    const auto news = watched.news();
    REQUIRE(news.size() == 1);
    CHECK(news[0].writable);
    CHECK_FALSE(news[0].readable);
}

TEST_CASE("a removed handler is not called any more, even for events that have come already") {
    Poller poller;
    std::vector<Watched> both;
    both.reserve(2);
    for (int i = 0; i < 2; ++i) both.emplace_back(poller);
    Watched& first = both[0];
    Watched& second = both[1];
    // The first one to be called removes the other one, with an event in the same batch.
    first.then = [&] { poller.remove(second.own.get(), second); };
    second.then = [&] { poller.close(std::move(first.own), first); };
    for (Watched& each : both) {
        REQUIRE(poller.add(each.own.get(), each));
        each.say("a");
    }
    poller.poll();
    poller.dispatch();
    CHECK(first.heard.size() + second.heard.size() == 1);
    first.then = second.then = nullptr;
    poller.poll();
    poller.dispatch();
    CHECK(first.heard.size() + second.heard.size() == 1);
}

TEST_CASE("more than a batch is told in several") {
    Poller poller;
    constexpr std::size_t many = 300;
    std::vector<Watched> all;
    all.reserve(many);
    for (std::size_t i = 0; i < many; ++i) {
        all.emplace_back(poller);
        REQUIRE(poller.add(all.back().own.get(), all.back()));
        all.back().say("a");
    }
    std::size_t calls = 0;
    for (std::size_t heard = 0; heard < many; ++calls) {
        REQUIRE(calls < many);
        poller.poll();
        poller.dispatch();
        heard = 0;
        for (const Watched& each : all) heard += each.heard.size();
    }
    CHECK(calls > 1);
    for (const Watched& each : all) CHECK(each.heard.size() == 1);
}
