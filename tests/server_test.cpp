#include "server/server.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>

#include "server/shard/shard.h"
#include "tests/support/gateway.h"
#include "tests/support/patience.h"
#include "tests/support/text.h"

using namespace pulsegate;

namespace {

/// Why a server with these settings can't be.
std::string obstacle(const ListenUrl& url, const std::string& events = {}) {
    Config config;
    config.shards = 2;
    config.listen = {url};
    config.events = events;
    try {
        const Server server(config);
        return {};
    } catch (const ConfigError& error) {
        return error.what();
    }
}

constexpr auto mqtt = ListenUrl::Scheme::mqtt;
constexpr auto http = ListenUrl::Scheme::http;

}  // namespace

TEST_CASE("the error for a port that is taken names the remedy") {
    const Gateway gateway;
    for (const auto& url : {ListenUrl{mqtt, "127.0.0.1", gateway.mqtt_port()},
                            ListenUrl{http, "127.0.0.1", gateway.http_port()}}) {
        const auto said = obstacle(url);
        CAPTURE(said);
        CHECK(said.starts_with("listen: " + url.text() + ": "));
        CHECK(has(said, "choose another port with --listen"));
    }
}

TEST_CASE("a stop may take longer than stop-wait, and by default less than 10 s") {
    Config config;
    config.shards = 1;
    config.listen = {{mqtt, "127.0.0.1", 0}};
    CHECK(Server(config).longest_stop() < 10'000);
    config.stop_wait = 60'000;
    CHECK(Server(config).longest_stop() > 60'000);
    config.stop_wait = 0;
    CHECK(Server(config).longest_stop() > 2'000);  // for the store
}

TEST_CASE("the error names an address that is not ours, or no address at all") {
    CHECK(obstacle({mqtt, "192.0.2.1", 0}).starts_with("listen: mqtt://192.0.2.1:0: "));
}

TEST_CASE("listening on a public address without passwords needs an explicit setting") {
    CHECK(has(obstacle({mqtt, "0.0.0.0", 0}), "--allow-anonymous"));
    CHECK(has(obstacle({http, "0.0.0.0", 0}), "--admin-token-file"));
    Gateway gateway([](Config& config) {
        config.authenticator.allow_anonymous = true;
        config.listen[0].host = "0.0.0.0";
    });
    Conversation(gateway).login("p").expect_nothing();
}

TEST_CASE("the error names an events file that can't be written") {
    const auto said = obstacle({mqtt, "127.0.0.1", 0}, "/no/such/folder/events");
    CHECK(said.starts_with("events: "));
    CHECK(has(said, "/no/such/folder/events"));
}

TEST_CASE("a server may stop twice, and may never have started") {
    Gateway gateway;
    Conversation c(gateway);
    c.login("p");
    gateway.stop();
    gateway.stop();
    c.expect_close();
    CHECK(obstacle({mqtt, "127.0.0.1", 0}).empty());
}

TEST_CASE("one shard, and many, serve alike") {
    for (const unsigned shards : {1u, 5u}) {
        Gateway gateway([=](Config& config) { config.shards = shards; });
        for (int i = 0; i < 20; ++i) {
            Conversation c(gateway);
            c.login("p" + std::to_string(i)).send("82 r k1 s'x' 00").expect("90 03 k1 00");
            c.send("30 r s'x' '!'").expect("30 r s'x' '!'");
        }
    }
}

TEST_CASE("if a task fails on a shard's thread, its caller learns why, and the shard goes on") {
    Gateway gateway;
    for (Shard* const shard : gateway.shards())
        CHECK_THROWS_WITH(shard->call([](Shard&) { throw std::runtime_error("why"); }).get(),
                          "why");
    Conversation(gateway).login("p");
}

TEST_CASE("mail does not wait for all turns that a shard has left to itself, which weigh nothing") {
    constexpr std::uint64_t turns = 100'000;
    Gateway gateway([](Config& config) { config.shards = 1; });
    std::promise<std::uint64_t> before_mail;
    std::promise<std::uint64_t> in_the_end;
    // A shard is quiet when it has done all its turns.
    const std::function<void(Shard&)> look = [&](Shard& shard) {
        const auto settled = shard.upgrade().settle(false);
        if (!settled.is_quiet) return static_cast<void>(shard.send(Shard::Task(look)));
        shard.thaw();
        in_the_end.set_value(settled.handled);
    };
    const auto leave_turns = [&](Shard& shard) {
        shard.upgrade().begin_freeze();
        const auto handled = shard.upgrade().settle(false).handled;
        for (std::uint64_t i = 0; i < turns; ++i) shard.later(ReplayTurn{0});
        CHECK(shard.mailbox_weight() < turns);  // others may have sent something
        CHECK_FALSE(shard.upgrade().settle(false).is_quiet);
        shard.send(Shard::Task([&, handled](Shard& each) {
            before_mail.set_value(each.upgrade().settle(false).handled - handled);
            look(each);
        }));
    };
    gateway.shards().front()->call(leave_turns).get();
    const auto first = before_mail.get_future().get();
    CHECK(first > 0);
    CHECK(first < turns / 10);
    CHECK(in_the_end.get_future().get() >= turns);
}

TEST_CASE("what a shard concludes after another node has taken over does not leave it") {
    Gateway gateway([](Config& config) { config.shards = 1; });
    Conversation c(gateway);
    c.login("p").send("82 r k1 s'presence/p' 00").expect("90 03 k1 00");
    CHECK(has(c.packet(), R"("online")"));
    std::atomic<bool> is_stale = false;
    std::atomic<bool> is_asked = false;
    Shard& shard = *gateway.shards().front();
    shard
        .call([&](Shard& each) {
            each.guard_by([&] {
                is_asked = is_stale.load();
                is_stale.wait(true);
            });
        })
        .get();
    auto round = shard.call([&](Shard& each) {
        is_stale = true;  // the process stands still just now, and goes on later
        each.announce_shutdown(false);
    });
    CHECK(comes_true([&] { return is_asked.load(); }));
    char sent = 0;
    CHECK(::recv(c.socket(), &sent, 1, MSG_PEEK | MSG_DONTWAIT) == -1);
    is_stale = false;
    is_stale.notify_one();
    round.get();
    CHECK(has(c.packet(), R"("offline")"));
    shard.call([](Shard& each) { each.guard_by({}); }).get();
}
