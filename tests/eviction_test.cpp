#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tests/support/broker_cluster.h"
#include "tests/support/quiet_log.h"

using namespace pulsegate;

namespace {

/// Clients of one shard, none of which says anything.
class Crowd {
public:
    KeptLink& arrive(const std::string& user, const std::string& client, AuthResult result) {
        KeptLink& link = links_.emplace_back(0);
        cluster_.adopt(link);
        Connect connect;
        connect.version = Version::v5_0;
        connect.client_id = client;
        connect.username = user;
        connect.keepalive = 60;
        broker().logins().login(link, connect, result, cluster_.now);
        cluster_.end_turn();
        REQUIRE(link.session);
        return link;
    }
    KeptLink& arrive(const std::string& client, PasswordLine line) {
        return arrive("u", client, {.password_line = line});
    }
    KeptLink& arrive_by_token(const std::string& client, std::optional<std::int64_t> issued) {
        return arrive("u", client, {.token_issued = issued});
    }

    void use(PasswordLines lines) {
        broker().use(std::make_shared<const PasswordLines>(std::move(lines)));
        cluster_.end_turn();
    }
    bool tick() {
        const bool more = broker().tick(cluster_.now);
        cluster_.end_turn();
        return more;
    }
    Evicted evict(Eviction eviction) {
        eviction.arrived_by = wall_now() + 1000;
        const Evicted evicted = broker().admin().evict(eviction, cluster_.now);
        cluster_.end_turn();
        return evicted;
    }
    std::size_t connected() { return broker().admin().sessions().connected(); }

private:
    static BrokerSettings settings() {
        BrokerSettings any_number;
        any_number.max_connections_per_user = 0;
        return any_number;
    }

    Broker& broker() { return cluster_.broker(0); }

    std::list<KeptLink> links_;
    BrokerCluster cluster_{settings(), 1};
};

constexpr std::size_t many = 1000;
constexpr std::size_t most_a_turn = 64;

}  // namespace

TEST_CASE("clients of a password line that was removed are disconnected, and the others stay") {
    const QuietLog quiet;
    Crowd crowd;
    KeptLink& removed = crowd.arrive("removed", 1);
    KeptLink& stays = crowd.arrive("stays", 2);
    KeptLink& by_token = crowd.arrive_by_token("by token", 5);
    crowd.use({.lines = {2}, .last = 2});
    REQUIRE(removed.ending);
    CHECK(removed.ending->reason == Reason::not_authorized);
    CHECK_FALSE(stays.ending);
    CHECK_FALSE(by_token.ending);
}

TEST_CASE(
    "many clients of removed lines are disconnected over many turns, and so are all clients of a "
    "user") {
    const QuietLog quiet;
    for (const bool one_user : {false, true}) {
        CAPTURE(one_user);
        Crowd crowd;
        for (std::size_t i = 0; i < many; ++i)
            crowd.arrive(one_user ? "u" : "u" + std::to_string(i), "c" + std::to_string(i),
                         {.password_line = 1});
        crowd.arrive("v", "c", {.password_line = 2});
        crowd.use({.lines = {2}, .last = 2});
        for (bool more = true; more;) {
            const auto before = crowd.connected();
            more = crowd.tick();
            CHECK(before - crowd.connected() <= most_a_turn);
        }
        CHECK(crowd.connected() == 1);
    }
}

TEST_CASE("a revocation spares only clients with a token that was issued since") {
    const QuietLog quiet;
    Crowd crowd;
    KeptLink& old = crowd.arrive_by_token("old", 99);
    KeptLink& fresh = crowd.arrive_by_token("fresh", 100);
    KeptLink& by_password = crowd.arrive("by password", 1);
    const auto evicted =
        crowd.evict({.user = "u", .tokens_spared_since = 100, .why = "it was revoked"});
    CHECK(evicted.disconnected == 2);
    REQUIRE(old.ending);
    CHECK(old.ending->reason == Reason::administrative_action);
    CHECK(old.ending->why == std::string("it was revoked"));
    CHECK(by_password.ending);
    CHECK_FALSE(fresh.ending);
}

TEST_CASE("a client that was asked to leave is not evicted twice") {
    const QuietLog quiet;
    Crowd crowd;
    KeptLink& phone = crowd.arrive("phone", 1);
    phone.session->disconnect(Reason::protocol_error, "it has made a mistake");
    const auto evicted = crowd.evict({.user = "u"});
    CHECK(evicted.clients() == 0);
    CHECK(evicted.leaving == 1);
    CHECK(crowd.evict({.user = "u"}).leaving == 0);
}

TEST_CASE("an eviction without a time spares no token") {
    const QuietLog quiet;
    Crowd crowd;
    crowd.arrive_by_token("old", 99);
    CHECK(crowd.evict({.user = "u"}).disconnected == 1);
}
