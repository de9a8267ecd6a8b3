#include "tests/support/session_player.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/session/terms/homes.h"
#include "tests/support/checked_cluster.h"
#include "tests/support/random_session.h"

namespace pulsegate {

namespace {

struct Person {
    std::string_view user;
    std::string_view inbox;
};
const Person inbox_users[] = {
    {"ann", "inbox/ann"}, {"b/ob", "inbox/b%2Fob"}, {"100%", "inbox/100%25"}};

/// Chooses what happens next, and has it happen.
class Player {
public:
    Player(const SessionScene& scene, unsigned seed)
        : scene_(scene),
          random_(scene, seed),
          cluster_(scene.settings, scene.shards, scene.exact()) {
        for (int i = 0; i < scene.clients; ++i) {
            const auto name = "c" + std::to_string(i);
            const Person& person =
                inbox_users[static_cast<std::size_t>(i) % std::size(inbox_users)];
            if (scene.inboxes)
                add_client(name, person.user, person.inbox);
            else
                add_client(name, name, "inbox/" + name);
        }
    }

    void run() {
        for (cluster_.step = 0; cluster_.step < scene_.steps; ++cluster_.step) {
            random_event();
            if (cluster_.step % 100 == 99) quiet_down();
        }
        quiet_down();
        everybody_returns();
        look_at_what_is_retained();
        everybody_leaves();
    }

    const CheckedCluster& cluster() const { return cluster_; }

private:
    unsigned below(std::size_t bound) { return random_.below(bound); }
    bool chance(unsigned percent) { return random_.chance(percent); }
    template <class List>
    auto& one_of(List& list) {
        return random_.one_of(list);
    }

    PlayedClient& add_client(std::string_view name, std::string_view user, std::string_view inbox) {
        return clients_.emplace_back(PlayedClient{.name = std::string(name),
                                                  .user = std::string(user),
                                                  .inbox = std::string(inbox),
                                                  .shard = Homes(scene_.shards).shard_of(user)});
    }

    PlayedClient* anyone_there() {
        std::vector<PlayedClient*> there;
        for (PlayedClient& client : clients_)
            if (client.there()) there.push_back(&client);
        return there.empty() ? nullptr : one_of(there);
    }

    void random_event() {
        brokers_.now += below(3);
        if (brokers_.now % 1000 == 0) ++brokers_.now;  // ticks have the full seconds for themselves
        if (chance(static_cast<unsigned>(scene_.delivery_percent)) && brokers_.has_messages())
            return deliver_some();
        PlayedClient* there = anyone_there();
        if (!there || chance(8)) return connect(one_of(clients_));
        switch (below(24)) {
            case 0: return disconnect(*there);
            case 1: return lose_connection(*there);
            case 2:
            case 3:
            case 4: return subscribe(*there);
            case 5: return unsubscribe(*there);
            case 6: return chance(50) ? advance(1 + below(3)) : advance(below(20));
            case 7: return release(*there);
            case 8: return send_again(*there);
            case 9: return scene_.misbehaving && chance(20) ? misbehave(*there) : stray(*there);
            case 10: return !scene_.exact() && chance(70) ? get_stuck(*there) : deliver_all();
            case 11:
            case 12:
            case 13:
            case 14:
            case 15:
            case 16: return acknowledge(*there);
            default: return publish(*there);
        }
    }

    // -- messages between shards, and time --

    void deliver_one() {
        const auto pairs = brokers_.pairs_with_messages();
        const auto pair = one_of(pairs);
        cluster_.deliver(pair);
    }

    void deliver_some() {
        for (auto left = 1 + below(6); left > 0 && brokers_.has_messages(); --left) deliver_one();
    }

    void deliver_all() {
        while (brokers_.has_messages()) deliver_one();
    }

    void advance(unsigned seconds) {
        for (; seconds > 0; --seconds) {
            // A newer retained message holds off an older one until it expires, and a deletion for
            // ten seconds: messages between shards are faster.
            if (scene_.retained || seconds % 3 == 0) deliver_all();
            const auto rest = brokers_.now % 1000;
            brokers_.now += 1000 - rest;
            cluster_.tick();
            ++brokers_.now;
        }
        brokers_.now += below(990);
    }

    // -- connections --

    void connect(PlayedClient& client) {
        cluster_.connect(client, random_.hello(client.name, client.user));
    }

    void lose_connection(PlayedClient& client) {
        cluster_.note("the connection of {} is lost", client.name);
        client.link->end({Cause::connection_lost, Reason::success, "lost"});
        cluster_.end(client, false);
    }

    void disconnect(PlayedClient& client) {
        Disconnect disconnect;
        PropertyList properties;
        ModelSession& session = *model_.find(client.name);
        bool takes_will_back = true;
        if (client.version == Version::v5_0) {
            if (chance(40)) disconnect.reason = Reason::disconnect_with_will;
            takes_will_back = disconnect.reason == Reason::success;
            if (chance(40)) {
                const std::uint32_t expiry = chance(30) ? 0 : 1 + below(30);
                properties.add(Property::session_expiry_interval, expiry);
                if (session.hello.expiry == 0 && expiry != 0)
                    takes_will_back = false;  // a protocol error
                else
                    session.hello.expiry = expiry;
            }
        }
        disconnect.properties = properties.view();
        cluster_.note("{} disconnects with {:#x}, expiry {}", client.name,
                      static_cast<int>(disconnect.reason), session.hello.expiry);
        cluster_.handle(client, disconnect);
        if (!client.link->ending) throw Broken(client.name + " is still connected");
        cluster_.end(client, takes_will_back);
    }

    void get_stuck(PlayedClient& client) {
        client.link->stuck = !client.link->stuck;
        model_.find(client.name)->reads = !client.link->stuck;
        cluster_.note("{} {}", client.name, client.link->stuck ? "gets stuck" : "reads again");
        cluster_.finish_turn();
    }

    // -- publishing --

    void publish(PlayedClient& client) {
        Note made = random_.note(client.name, client.user, std::string(random_.topic()));
        if (client.version != Version::v5_0) made.message_expiry.reset();
        std::uint16_t id = 0;
        if (made.qos != QoS::at_most_once) {
            do {
                client.last_id = static_cast<std::uint16_t>(client.last_id % 50'000 + 1);
            } while (client.sent.contains(client.last_id));
            id = client.last_id;
        }
        publish(client, made, id, false);
    }

    void publish(PlayedClient& client, const Note& made, std::uint16_t id, bool again) {
        PropertyList properties;
        std::string_view topic = made.topic;
        const bool v5 = client.version == Version::v5_0;
        if (v5 && made.message_expiry)
            properties.add(Property::message_expiry_interval, *made.message_expiry);
        const auto most = scene_.settings.topic_alias_maximum;
        if (v5 && most > 0 && chance(30)) {
            const auto alias = static_cast<std::uint16_t>(1 + below(most));
            properties.add(Property::topic_alias, alias);
            auto& known = client.own_topics[alias];
            if (known == topic && chance(70))
                topic = {};
            else
                known = topic;
        }
        cluster_.note("{} publishes '{}' to {} QoS {} id {}{}{}", client.name, made.payload,
                      made.topic, static_cast<int>(made.qos), id, again ? " DUP" : "",
                      made.retain ? " RETAIN" : "");
        ModelSession& session = *model_.find(client.name);
        const bool repeats = made.qos == QoS::exactly_once && session.unreleased.contains(id);
        const bool too_many = made.qos == QoS::exactly_once && !repeats && v5 &&
                              session.unreleased.size() >= scene_.settings.receive_maximum;
        const auto dropped = cluster_.dropped_for_limits();
        cluster_.handle(client, Publish{again, made.qos, made.retain, topic, id, properties.view(),
                                        made.payload});
        if (too_many) {
            if (!client.link->ending ||
                client.link->ending->reason != Reason::receive_maximum_exceeded)
                throw Broken(client.name + " sent more than Receive Maximum");
            return cluster_.end(client, false);
        }
        if (!repeats) model_.publish(made, client.shard, brokers_.now);
        if (made.qos == QoS::at_most_once) return cluster_.expect(client, {});
        // Nobody gets it, because of a limit: that is one way to answer, and ends the exchange.
        if (cluster_.dropped_for_limits() > dropped && cluster_.take_refusal(client, id)) return;
        if (made.qos == QoS::at_least_once)
            return cluster_.expect(client, {{PacketType::puback, id, {Reason::success}}});
        session.unreleased.insert(id);
        client.sent[id] = made;
        cluster_.expect(client, {{PacketType::pubrec, id, {Reason::success}}});
    }

    /// PUBLISH with QoS 2 a second time.
    void send_again(PlayedClient& client) {
        if (client.sent.empty()) return;
        const auto [id, made] = one_of(client.sent);
        publish(client, Note(made), id, true);
    }

    void release(PlayedClient& client) {
        if (client.sent.empty()) return;
        const auto id = one_of(client.sent).first;
        cluster_.note("{} releases {}", client.name, id);
        cluster_.handle(client, Pubrel{id, Reason::success, {}});
        const bool known = model_.find(client.name)->unreleased.erase(id) > 0;
        client.sent.erase(id);
        const bool tells = client.version == Version::v5_0 && !known;
        cluster_.expect(client,
                        {{PacketType::pubcomp,
                          id,
                          {tells ? Reason::packet_identifier_not_found : Reason::success}}});
        if (!known || !chance(20)) return;
        cluster_.note("{} releases {} again", client.name, id);
        cluster_.handle(client, Pubrel{id, Reason::success, {}});
        cluster_.expect(client, {{PacketType::pubcomp, id, {Reason::success}}});
    }

    // -- acknowledging --

    void acknowledge(PlayedClient& client) {
        if (client.due.empty()) return;
        const auto place = client.due.begin() + below(client.due.size());
        const auto [type, id] = *place;
        client.due.erase(place);
        const bool v5 = client.version == Version::v5_0;
        if (type == PacketType::puback) {
            cluster_.note("{} sends PUBACK {}", client.name, id);
            cluster_.handle(
                client, Puback{id, v5 && chance(5) ? Reason::quota_exceeded : Reason::success, {}});
            model_.puback(client.name, id);
        } else if (type == PacketType::pubrec) {
            const bool error = v5 && chance(5);
            cluster_.note("{} sends PUBREC {}{}", client.name, id, error ? " with an error" : "");
            cluster_.handle(client,
                            Pubrec{id, error ? Reason::quota_exceeded : Reason::success, {}});
            model_.pubrec(client.name, id, error);
            if (error) client.received.erase(id);
        } else {
            cluster_.note("{} sends PUBCOMP {}", client.name, id);
            cluster_.handle(client, Pubcomp{id, Reason::success, {}});
            model_.pubcomp(client.name, id);
        }
        cluster_.expect(client, {});
    }

    /// Acknowledgements of what is not in flight, which may be late ones.
    void stray(PlayedClient& client) {
        const std::uint16_t id = 65'000;
        cluster_.note("{} acknowledges something else", client.name);
        const auto unknown =
            client.version == Version::v5_0 ? Reason::packet_identifier_not_found : Reason::success;
        switch (below(4)) {
            case 0:
                cluster_.handle(client, Puback{id, Reason::success, {}});
                return cluster_.expect(client, {});
            case 1:
                cluster_.handle(client, Pubcomp{id, Reason::success, {}});
                return cluster_.expect(client, {});
            case 2:
                cluster_.handle(client, Pubrec{id, Reason::success, {}});
                return cluster_.expect(client, {{PacketType::pubrel, id, {unknown}}});
            default:
                cluster_.handle(client, Pubrel{id, Reason::success, {}});
                return cluster_.expect(client, {{PacketType::pubcomp, id, {unknown}}});
        }
    }

    void misbehave(PlayedClient& client) {
        const auto pick = [&](PacketType type) -> std::uint16_t {
            for (const auto& due : client.due)
                if (due.type == type) return due.id;
            return 0;
        };
        PropertyList properties;
        switch (below(5)) {
            case 0: cluster_.handle(client, Connect{}); break;
            case 1:
                if (const auto id = pick(PacketType::pubrec)) {
                    cluster_.handle(client, Puback{id, Reason::success, {}});
                    break;
                }
                return;
            case 2:
                if (const auto id = pick(PacketType::puback)) {
                    cluster_.handle(client, Pubrec{id, Reason::success, {}});
                    break;
                }
                return;
            case 3:
                if (const auto id = pick(PacketType::pubrec)) {
                    cluster_.handle(client, Pubcomp{id, Reason::success, {}});
                    break;
                }
                return;
            default:
                if (client.version != Version::v5_0) return;
                properties.add(Property::topic_alias, scene_.settings.topic_alias_maximum + 1u);
                cluster_.handle(client, Publish{.topic = "a", .properties = properties.view()});
        }
        cluster_.note("{} breaks the rules", client.name);
        if (!client.link->ending) throw Broken(client.name + " broke the rules and is still there");
        cluster_.end(client, false);
    }

    // -- subscriptions --

    void subscribe(PlayedClient& client) {
        Subscribe request{.packet_id = static_cast<std::uint16_t>(1 + below(65'535))};
        const auto [filters, identifier] = random_.subscription(client.version == Version::v5_0);
        request.filters = filters;
        PropertyList properties;
        if (identifier != 0) properties.add(Property::subscription_identifier, identifier);
        request.properties = properties.view();
        PlayedClient::Answer right{PacketType::suback, request.packet_id, {}};
        // The model first: what is retained follows the SUBACK in the same turn.
        for (const auto& [filter, options] : request.filters) {
            cluster_.note(
                "{} subscribes to {} QoS {} identifier {}{}{} handling {}", client.name, filter,
                static_cast<int>(options.qos), identifier, options.no_local ? " no local" : "",
                options.retain_as_published ? " as published" : "", options.retain_handling);
            model_.subscribe(client.name, std::string(filter), options, identifier, brokers_.now);
            right.reasons.push_back(static_cast<Reason>(options.qos));
        }
        cluster_.handle(client, request);
        // That of a shared subscription waits for the shard of the group.
        while (client.link->session->state.exchanges().answers().has_suback()) deliver_one();
        cluster_.expect(client, {right});
        if (!brokers_.has_messages()) model_.settle_shares();
    }

    void unsubscribe(PlayedClient& client) {
        const auto& subscriptions = model_.find(client.name)->subscriptions;
        std::string filter(one_of(wide_filters));
        if (!subscriptions.empty() && chance(80)) filter = one_of(subscriptions).first;
        cluster_.note("{} unsubscribes from {}", client.name, filter);
        const bool existed = model_.unsubscribe(client.name, filter);
        Unsubscribe request{.packet_id = 7, .filters = {filter}};
        cluster_.handle(client, request);
        PlayedClient::Answer right{PacketType::unsuback, 7, {}};
        if (client.version == Version::v5_0)
            right.reasons = {existed ? Reason::success : Reason::no_subscription_existed};
        cluster_.expect(client, {right});
    }

    // -- ends --

    void quiet_down() {
        for (PlayedClient& client : clients_)
            if (client.there() && client.link->stuck) get_stuck(client);
        for (bool quiet = false; !quiet;) {
            quiet = true;
            for (PlayedClient& client : clients_)
                while (client.there() && !client.due.empty()) {
                    acknowledge(client);
                    quiet = false;
                }
            if (brokers_.has_messages()) {
                deliver_all();
                quiet = false;
            }
        }
        cluster_.note("all is quiet");
        model_.check_quiet(brokers_.now);
    }

    void everybody_returns() {
        for (PlayedClient& client : clients_) {
            if (client.there()) continue;
            Hello hello = random_.hello(client.name, client.user);
            hello.clean = false;
            if (hello.version == Version::v3_1_1) hello.expiry = 60;
            cluster_.connect(client, hello);
        }
        quiet_down();
    }

    /// A new client gets the same retained messages on every shard.
    void look_at_what_is_retained() {
        if (!scene_.retained) return;
        std::set<unsigned> seen;
        for (int i = 0; seen.size() < scene_.shards; ++i) {
            const std::string name = "new-client" + std::to_string(i);
            if (!seen.insert(Homes(scene_.shards).shard_of(name)).second) continue;
            PlayedClient& new_client = add_client(name, name, "inbox/" + name);
            cluster_.connect(new_client, Hello{});
            SubscribeOptions options;
            options.qos = QoS::exactly_once;
            model_.subscribe(name, "#", options, 0, brokers_.now);
            cluster_.handle(new_client, Subscribe{.packet_id = 1, .filters = {{"#", options}}});
            cluster_.expect(new_client, {{PacketType::suback, 1, {Reason::granted_qos_2}}});
        }
        quiet_down();
        for (unsigned shard = 1; shard < scene_.shards; ++shard)
            if (model_.retained(shard, brokers_.now) != model_.retained(0, brokers_.now))
                throw Broken("the shards do not retain the same");
    }

    void everybody_leaves() {
        for (PlayedClient& client : clients_)
            if (client.there()) chance(50) ? disconnect(client) : lose_connection(client);
        advance(100);
        deliver_all();
        cluster_.check_empty();
        for (unsigned shard = 0; shard < scene_.shards; ++shard) {
            nobody_wants(shard, plain_topics);
            nobody_wants(shard, shared_topics);
            nobody_wants(shard, inbox_topics);
        }
    }

    template <class Topics>
    void nobody_wants(unsigned shard, const Topics& topics) {
        for (const auto topic : topics)
            if (brokers_.interest(shard).may_match(topic)) throw Broken("interests are left");
    }

    const SessionScene scene_;
    RandomSession random_;
    CheckedCluster cluster_;
    BrokerCluster& brokers_ = cluster_.brokers;
    SessionModel& model_ = cluster_.model;
    std::deque<PlayedClient>& clients_ = cluster_.clients;
};

}  // namespace

void play_sessions(const SessionScene& scene, unsigned seed, SessionsSeen& seen) {
    Player player(scene, seed);
    try {
        player.run();
    } catch (const Broken& rule) {
        throw Broken(fmt::format("seed {}, step {}: {}\n{}", seed, player.cluster().step,
                                 rule.what(), player.cluster().journal()));
    }
    const SessionModel& model = player.cluster().model;
    seen.received += model.received;
    seen.resent += model.resent;
    seen.retained += model.retained_done;
    seen.shared += model.shared_taken;
    seen.wills += model.wills;
    seen.full += model.lost_to_full_queues;
    seen.expired += model.lost_to_expiry;
    seen.too_large += model.lost_to_size;
    seen.by_inbox += model.by_inbox;
}

}  // namespace pulsegate
