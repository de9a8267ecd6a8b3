// The list of clients, page by page, while clients come and go.
#include "server/session/client_search.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/durable_cluster.h"
#include "tests/support/durable_steps.h"

using namespace pulsegate;

namespace {

using ClientName = std::pair<std::string, std::string>;  ///< user and client id

ClientName name_of(const ClientDescription& client) { return {client.user, client.client}; }

/// A page, and behind what the next one begins.
std::vector<ClientName> page(Broker& broker, const ClientFilter& filter, std::size_t most,
                             std::optional<ClientPosition>& position, Millis now) {
    std::vector<ClientName> found;
    while (position && found.size() < most) {
        const auto some = broker.admin().clients(filter, *position, most - found.size(), now);
        for (const auto& client : some.clients) found.push_back(name_of(client));
        position = some.next;
    }
    return found;
}

std::vector<ClientName> all(DurableCluster& brokers, const ClientFilter& filter,
                            std::size_t most = 3) {
    std::vector<ClientName> found;
    std::optional<ClientPosition> position = ClientPosition{};
    while (position)
        for (const auto& each : page(brokers->broker(0), filter, most, position, brokers->now))
            found.push_back(each);
    return found;
}

/// Some users that come and go at random, one of them with many devices.
class People {
public:
    People(DurableCluster& brokers, unsigned seed) : brokers_(brokers), random_(seed) {}

    /// Returns the name of the client that came or went.
    ClientName change() {
        const auto user = fmt::format("user{}", below(3) == 0 ? 0 : below(12));
        const auto client = fmt::format("c{}", user == "user0" ? below(40) : below(2));
        auto& one = clients_[{user, client}];
        if (one && here_.contains({user, client})) {
            one->lose_connection();
            here_.erase({user, client});
        } else {
            if (!one) one = std::make_unique<PlainClient>(brokers_, client, user);
            one->connect(false);
            here_.insert({user, client});
        }
        brokers_.settle();
        brokers_->end_turn();
        brokers_->now += 1 + below(3);
        return {user, client};
    }
    unsigned below(unsigned bound) { return static_cast<unsigned>(random_() % bound); }

    std::set<ClientName> known() const {
        std::set<ClientName> names;
        for (const auto& [name, client] : clients_) names.insert(name);
        return names;
    }
    const std::set<ClientName>& here() const { return here_; }

private:
    DurableCluster& brokers_;
    std::mt19937 random_;
    std::map<ClientName, std::unique_ptr<PlainClient>> clients_;
    std::set<ClientName> here_;
};

std::set<ClientName> once(const std::vector<ClientName>& names) {
    std::set<ClientName> each(names.begin(), names.end());
    CHECK(each.size() == names.size());
    return each;
}

}  // namespace

TEST_CASE("each client is on one page, whatever its size") {
    DurableCluster brokers;
    People people(brokers, 1);
    for (int i = 0; i < 200; ++i) people.change();
    for (const std::size_t most : {1, 2, 7, 50, 1000})
        CHECK(once(all(brokers, {}, most)) == people.known());
    CHECK(once(all(brokers, {.connected = true})) == people.here());
    std::set<ClientName> away = people.known();
    for (const auto& name : people.here()) away.erase(name);
    CHECK(once(all(brokers, {.connected = false})) == away);
}

TEST_CASE("a client that stays as it is while the pages are read is on one, and none is missed") {
    for (unsigned seed = 1; seed <= 40; ++seed) {
        CAPTURE(seed);
        DurableCluster brokers;
        People people(brokers, seed);
        for (int i = 0; i < 60; ++i) people.change();
        const auto there = people.known();
        std::map<ClientName, int> seen;
        std::set<std::string> changed;  // users
        std::optional<ClientPosition> position = ClientPosition{};
        for (int turns = 0; position; ++turns) {
            const auto most = 1 + people.below(4);
            for (const auto& name : page(brokers->broker(0), {}, most, position, brokers->now))
                ++seen[name];
            for (unsigned i = people.below(3); turns < 30 && i > 0; --i)
                changed.insert(people.change().first);
        }
        for (const auto& name : there) {
            CAPTURE(name.first);
            CAPTURE(name.second);
            CHECK(seen[name] >= 1);
            if (!changed.contains(name.first)) CHECK(seen[name] == 1);
        }
    }
}

TEST_CASE("a client is listed if all filters apply to it") {
    DurableCluster brokers;
    std::list<PlainClient> clients;
    for (const char* name : {"phone-1", "phone-2", "laptop"})
        clients.emplace_back(brokers, name, "ann").connect(false);
    clients.emplace_back(brokers, "phone-3", "bob").connect(false);
    clients.back().lose_connection();
    brokers->end_turn();
    const std::set<ClientName> phones{{"ann", "phone-1"}, {"ann", "phone-2"}};
    CHECK(once(all(brokers, {.client_prefix = "phone-", .connected = true})) == phones);
    CHECK(all(brokers, {.client_prefix = "phone"}).size() == 3);
    CHECK(all(brokers, {.client_prefix = "tablet"}).empty());
    const auto at = [](const char* text) {
        return ClientFilter{.address = AddressRange::parse(text)};
    };
    CHECK(all(brokers, at("127.0.0.0/8")).size() == 3);
    CHECK(all(brokers, at("127.0.0.2")).empty());
    CHECK(all(brokers, {.listener = "mqtt://127.0.0.1:1883"}).size() == 3);
    CHECK(all(brokers, {.listener = "mqtt://127.0.0.1:1884"}).empty());
    CHECK(all(brokers, {.connected_since = wall_now() - 60'000}).size() == 3);
    CHECK(all(brokers, {.connected_since = wall_now() + 60'000}).empty());
}

TEST_CASE("a session that is packed is listed as it is, and stays packed") {
    BrokerSettings packing;
    packing.packed_after = 0;
    DurableCluster brokers(1, packing);
    PlainClient client(brokers, "phone", "ann");
    arrive(client, "room/1");
    brokers.settle();
    client.lose_connection();
    brokers.settle();
    brokers->end_turn();
    Broker& broker = brokers->broker(0);
    REQUIRE(broker.admin().sessions().packed() == 1);
    const auto found = broker.admin().clients(ClientFilter{}, ClientPosition{}, 10, brokers->now);
    REQUIRE(found.clients.size() == 1);
    CHECK(name_of(found.clients.front()) == ClientName{"ann", "phone"});
    CHECK_FALSE(found.clients.front().connected);
    CHECK(found.clients.front().subscriptions == 1);
    CHECK(broker.admin()
              .clients(ClientFilter{.connected = true}, ClientPosition{}, 10, brokers->now)
              .clients.empty());
    CHECK(broker.admin().sessions().packed() == 1);
}

TEST_CASE("a turn looks at a bounded number of users and describes a bounded number of clients") {
    DurableCluster brokers(1, {}, false);
    std::list<PlainClient> clients;
    for (unsigned i = 0; i < ClientSearch::users_a_turn + 10; ++i)
        clients.emplace_back(brokers, "c", fmt::format("u{}", i)).connect(true);
    Broker& broker = brokers->broker(0);
    const auto some = broker.admin().clients(ClientFilter{}, ClientPosition{}, 5000, brokers->now);
    CHECK(some.clients.size() == ClientSearch::clients_a_turn);
    const auto none = broker.admin().clients(ClientFilter{.client_prefix = "x"}, ClientPosition{},
                                             5000, brokers->now);
    CHECK(none.clients.empty());
    CHECK(none.next);
    CHECK(all(brokers, {}, 300).size() == ClientSearch::users_a_turn + 10);
}
