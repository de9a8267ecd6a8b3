// Random sequences of what clients do, played to the real brokers and to a plain model of the
// standard. The model judges every packet that a client receives, and after each event what
// should have been received.
#include "tests/support/session_model.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/decode.h"
#include "server/base/hash.h"
#include "server/session/broker.h"
#include "tests/support/broker_cluster.h"

using namespace pulsegate;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned seeds = 4;
#else
constexpr unsigned seeds = 40;
#endif

/// What a play is about.
struct Scene {
    unsigned shards = 3;
    BrokerSettings settings{};
    int clients = 6;
    int steps = 1500;
    bool retained = false;
    bool shared = false;
    bool wills = false;
    bool inboxes = false;        ///< users have several devices, and some messages are for inboxes
    bool expiring = false;       ///< messages
    bool small_packets = false;  ///< clients with a Maximum Packet Size
    bool misbehaving = false;
    int delivery_percent = 30;  ///< share of events that deliver messages between shards

    /// Without these the model knows exactly what waits for whom.
    bool exact() const { return !retained && !shared; }
};

Scene scene() {
    Scene scene;
    scene.settings.max_session_expiry = 60'000;
    scene.settings.forget_after = 0;
    scene.settings.recipients_a_turn = 2;
    scene.settings.inbox_expiry = 0;  // inbox_test has what waits for first devices
    return scene;
}

/// Ends the sessions of disconnected clients beyond so many. Whom the same event both publishes to
/// and ends then has lost the message with the session, before it could wait in a full queue.
void keep_few_sessions(Scene& scene, std::size_t quota) {
    scene.settings.persistent_session_quota = quota;
    scene.settings.recipients_a_turn = 1000;
}

std::string_view plain_topics[] = {"a", "a/b", "a/c", "b", "b/x/y", "a/", "/a", "c/b"};
std::string_view wide_filters[] = {"a",   "a/b", "a/c", "b",   "b/x/y", "a/", "/a",  "c/b", "a/+",
                                   "a/#", "#",   "+",   "+/b", "b/+/y", "/+", "+/+", "b/#", "w/#"};
std::string_view inbox_topics[] = {"inbox/ann",    "inbox/b%2Fob", "inbox/100%25",
                                   "inbox/nobody", "inbox/b/ob",   "inbox/100%",
                                   "inbox/%61nn",  "inbox/",       "inbox"};
std::string_view inbox_filters[] = {"inbox/ann",  "inbox/ann", "inbox/b%2Fob", "inbox/100%25",
                                    "inbox/b/ob", "inbox/+",   "inbox/#",      "inbox/%61nn"};
std::string_view shared_topics[] = {"s/0", "s/1", "s/9"};
std::string_view shares[] = {"$share/g0/s/0", "$share/g1/s/0", "$share/g2/s/+", "$share/g3/s/1",
                             "$share/g4/s/9"};

struct Answer {
    PacketType type;
    std::uint16_t id;
    std::vector<Reason> reasons;

    bool operator==(const Answer&) const = default;
};

struct Person {
    std::string_view user;
    std::string_view inbox;
};
const Person people[] = {{"ann", "inbox/ann"}, {"b/ob", "inbox/b%2Fob"}, {"100%", "inbox/100%25"}};

/// A client: what a good MQTT library remembers.
struct Client {
    std::string name;
    std::string user;
    std::string inbox;
    unsigned shard = 0;
    std::unique_ptr<KeptLink> link{};
    Version version = Version::v3_1_1;
    std::uint16_t aliases = 0;  ///< that it allows
    std::uint32_t largest_packet = 0;
    std::map<std::uint16_t, std::string> topics{};      ///< by alias, of what it receives
    std::map<std::uint16_t, std::string> own_topics{};  ///< of what it sends
    struct Due {
        PacketType type;
        std::uint16_t id;
    };
    std::vector<Due> due{};                ///< what it has still to acknowledge
    std::set<std::uint16_t> received{};    ///< QoS 2, up to PUBREL
    std::map<std::uint16_t, Note> sent{};  ///< QoS 2, up to PUBREL
    std::vector<Answer> answers{};         ///< in this turn
    std::optional<bool> session_present{};
    std::uint16_t last_id = 0;

    bool there() const { return link && link->session && !link->ending; }
};

class Play {
public:
    Play(const Scene& scene, unsigned seed)
        : scene_(scene),
          random_(seed),
          cluster_(scene.settings, scene.shards),
          model_(scene.settings, scene.shards) {
        for (int i = 0; i < scene.clients; ++i) {
            const auto name = "c" + std::to_string(i);
            const Person& person = people[static_cast<std::size_t>(i) % std::size(people)];
            if (scene.inboxes)
                add_client(name, person.user, person.inbox);
            else
                add_client(name, name, "inbox/" + name);
        }
    }

    void run() {
        for (step_ = 0; step_ < scene_.steps; ++step_) {
            random_event();
            if (step_ % 100 == 99) quiet_down();
        }
        quiet_down();
        everybody_returns();
        look_at_what_is_retained();
        everybody_leaves();
    }

    std::string journal() const {
        std::string text;
        for (const auto& line : journal_) text += line + '\n';
        return text;
    }
    const SessionModel& model() const { return model_; }
    int step() const { return step_; }

private:
    // -- chance
    unsigned below(std::size_t bound) { return static_cast<unsigned>(random_() % bound); }
    bool chance(unsigned percent) { return below(100) < percent; }
    template <class List>
    auto& one_of(List& list) {
        return *std::next(std::begin(list), below(std::size(list)));
    }

    template <class... Args>
    void note(fmt::format_string<Args...> format, Args&&... args) {
        journal_.push_back(fmt::format("{:5} {:7} ", step_, cluster_.now) +
                           fmt::format(format, std::forward<Args>(args)...));
        if (journal_.size() > 100) journal_.pop_front();
    }

    [[noreturn]] void broken(const std::string& what) { throw Broken(what); }

    Client& add_client(std::string_view name, std::string_view user, std::string_view inbox) {
        return clients_.emplace_back(Client{.name = std::string(name),
                                            .user = std::string(user),
                                            .inbox = std::string(inbox),
                                            .shard = home_shard(user, scene_.shards)});
    }

    Client* anyone_there() {
        std::vector<Client*> there;
        for (Client& client : clients_)
            if (client.there()) there.push_back(&client);
        return there.empty() ? nullptr : one_of(there);
    }

    void random_event() {
        cluster_.now += below(3);
        if (cluster_.now % 1000 == 0) ++cluster_.now;  // ticks have the full seconds for themselves
        if (chance(static_cast<unsigned>(scene_.delivery_percent)) && cluster_.has_messages())
            return deliver_some();
        Client* there = anyone_there();
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

    // -- a turn --

    void finish_turn() {
        cluster_.end_turn();
        for (Client& client : clients_) read(client);
        check_forwarded();
        model_.check_turn(cluster_.now);
        check_counts();
    }

    void read(Client& client) {
        if (!client.link) return;
        const std::string bytes = std::exchange(client.link->bytes, {});
        Bytes rest = as_bytes(bytes);
        while (!rest.empty()) {
            const Frame frame = next_frame(rest, 1 << 20);
            if (frame.status != Frame::Status::complete) broken(client.name + " got no packet");
            const Bytes packet = rest.first(frame.size);
            rest = rest.subspan(frame.size);
            if (client.largest_packet != 0 && packet.size() > client.largest_packet)
                broken(fmt::format("{} got {} bytes and takes {}", client.name, packet.size(),
                                   client.largest_packet));
            const Decoded decoded = decode(packet, client.version, Sender::server);
            if (const auto* error = std::get_if<DecodeError>(&decoded))
                broken(client.name + " got a bad packet: " + error->cause);
            read(client, std::get<Packet>(decoded));
        }
    }

    void read(Client& client, const Packet& packet) {
        if (const auto* publish = std::get_if<Publish>(&packet)) return read(client, *publish);
        if (const auto* pubrel = std::get_if<Pubrel>(&packet)) {
            if (pubrel->reason == Reason::packet_identifier_not_found || pubrel->packet_id > 60'000)
                return client.answers.push_back(
                    {PacketType::pubrel, pubrel->packet_id, {pubrel->reason}});
            model_.receive(client.name, *pubrel);
            client.received.erase(pubrel->packet_id);
            client.due.push_back({PacketType::pubcomp, pubrel->packet_id});
            return;
        }
        if (const auto* connack = std::get_if<Connack>(&packet)) {
            if (connack->reason != Reason::success) broken(client.name + " was refused");
            client.session_present = connack->session_present;
        } else if (const auto* puback = std::get_if<Puback>(&packet)) {
            client.answers.push_back({PacketType::puback, puback->packet_id, {puback->reason}});
        } else if (const auto* pubrec = std::get_if<Pubrec>(&packet)) {
            client.answers.push_back({PacketType::pubrec, pubrec->packet_id, {pubrec->reason}});
        } else if (const auto* pubcomp = std::get_if<Pubcomp>(&packet)) {
            client.answers.push_back({PacketType::pubcomp, pubcomp->packet_id, {pubcomp->reason}});
        } else if (const auto* suback = std::get_if<Suback>(&packet)) {
            client.answers.push_back({PacketType::suback, suback->packet_id, suback->reasons});
        } else if (const auto* unsuback = std::get_if<Unsuback>(&packet)) {
            client.answers.push_back(
                {PacketType::unsuback, unsuback->packet_id, unsuback->reasons});
        } else {
            broken(client.name + " got a packet that it should not");
        }
    }

    void read(Client& client, const Publish& publish) {
        std::string topic(publish.topic);
        if (const auto alias = publish.properties.number(Property::topic_alias)) {
            if (*alias == 0 || *alias > client.aliases)
                broken(fmt::format("{} got alias {} and allows {}", client.name, *alias,
                                   client.aliases));
            if (topic.empty() && !client.topics.contains(static_cast<std::uint16_t>(*alias)))
                broken(fmt::format("{} does not know alias {}", client.name, *alias));
            auto& known = client.topics[static_cast<std::uint16_t>(*alias)];
            if (topic.empty())
                topic = known;
            else
                known = topic;
        }
        note("  {} gets {} '{}' QoS {} id {}{}{}", client.name, topic, publish.payload,
             static_cast<int>(publish.qos), publish.packet_id, publish.dup ? " DUP" : "",
             publish.retain ? " RETAIN" : "");
        model_.receive(client.name, publish, topic, cluster_.now);
        if (publish.qos == QoS::at_least_once)
            client.due.push_back({PacketType::puback, publish.packet_id});
        if (publish.qos != QoS::exactly_once) return;
        if (!client.received.insert(publish.packet_id).second && !publish.dup)
            broken(client.name + " takes a new message for one that it has had");
        client.due.push_back({PacketType::pubrec, publish.packet_id});
    }

    /// What the model published went to all, and nothing else did.
    void check_forwarded() {
        auto published = model_.take_published();
        for (auto& forwarded : cluster_.take_forwarded()) {
            const Message& message = *forwarded.message;
            if (message.topic.starts_with("presence/")) continue;
            const auto found =
                std::find_if(published.begin(), published.end(), [&](const Note* note) {
                    return note->topic == message.topic && note->payload == message.payload;
                });
            if (found == published.end())
                broken("'" + message.payload + "' to " + message.topic +
                       " was published too early");
            for (const unsigned shard : forwarded.spared) model_.check_unwanted(**found, shard);
            if (message.retain != (*found)->retain || message.qos != (*found)->qos)
                broken("'" + message.payload + "' to " + message.topic + " changed");
            notes_[forwarded.message] = *found;
            published.erase(found);
        }
        if (!published.empty())
            broken("'" + published[0]->payload + "' to " + published[0]->topic +
                   " was not published");
    }

    void check_counts() {
        std::size_t waiting = 0;
        for (unsigned shard = 0; shard < scene_.shards; ++shard) {
            const Broker& broker = cluster_.broker(shard);
            const auto same = [&](const char* what, std::size_t real, std::size_t right) {
                if (real != right)
                    broken(
                        fmt::format("shard {} has {} {}, {} are right", shard, real, what, right));
            };
            same("sessions connected", broker.sessions().connected(), model_.connected(shard));
            same("sessions disconnected", broker.sessions().disconnected(),
                 model_.disconnected(shard));
            same("subscriptions", broker.subscriptions(), model_.subscriptions(shard));
            if (scene_.exact()) same("messages waiting", broker.waiting(), model_.waiting(shard));
            if (cluster_.longest_queue(shard) > scene_.settings.max_queued_messages)
                broken("a queue is longer than max-queued-messages");
            waiting += broker.waiting();
        }
        if (!scene_.exact()) return;
        check_losses(model_.lost_to_full_queues, &Counters::dropped_queue_full, "a full queue");
        check_losses(model_.lost_to_expiry, &Counters::dropped_expired, "expiry");
        check_losses(model_.lost_to_size, &Counters::dropped_too_large, "its size");
    }

    void check_losses(std::uint64_t& right, std::uint64_t Counters::*counter, const char* cause) {
        const auto real = cluster_.sum(counter);
        // Who ends first of those that end in one tick is open, and so is what they lose.
        if (model_.ended_together > 1) right = real;
        if (real != right)
            broken(fmt::format("{} messages were lost to {}, {} are right", real, cause, right));
    }

    void expect(Client& client, const std::vector<Answer>& right) {
        finish_turn();
        if (std::exchange(client.answers, {}) != right)
            broken(client.name + " was not answered as it should");
    }

    // -- messages between shards, and time --

    void deliver_one() {
        const auto pairs = cluster_.pairs_with_messages();
        const auto pair = one_of(pairs);
        const MessageRef message = cluster_.deliver(pair);
        if (message && notes_.contains(message)) {
            const Note& arrived = *notes_[message];
            note("'{}' to {} arrives at shard {}", arrived.payload, arrived.topic, pair.second);
            model_.arrive(arrived, pair.second, cluster_.now);
        } else {
            note("a message from shard {} arrives at {}", pair.first, pair.second);
        }
        finish_turn();
        if (!cluster_.has_messages()) model_.settle_shares();
    }

    void deliver_some() {
        for (auto left = 1 + below(6); left > 0 && cluster_.has_messages(); --left) deliver_one();
    }

    void deliver_all() {
        while (cluster_.has_messages()) deliver_one();
    }

    void advance(unsigned seconds) {
        for (; seconds > 0; --seconds) {
            // A newer retained message holds off an older one until it expires, and a deletion for
            // ten seconds: messages between shards are faster.
            if (scene_.retained || seconds % 3 == 0) deliver_all();
            const auto rest = cluster_.now % 1000;
            cluster_.now += 1000 - rest;
            note("tick");
            for (unsigned shard = 0; shard < scene_.shards; ++shard)
                static_cast<void>(cluster_.broker(shard).tick(cluster_.now));
            model_.tick(cluster_.now);
            finish_turn();
            model_.ended_together = 0;
            ++cluster_.now;
        }
        cluster_.now += below(990);
    }

    // -- connections --

    Hello random_hello(const Client& client) {
        Hello hello;
        hello.version = chance(60) ? Version::v5_0 : Version::v3_1_1;
        hello.clean = chance(25);
        // A message that comes by a share is told from others by its identifier.
        if (scene_.shared)
            hello.version =
                client.name == "c0" || client.name == "c1" ? Version::v3_1_1 : Version::v5_0;
        const bool v5 = hello.version == Version::v5_0;
        if (v5) {
            if (chance(80)) hello.expiry = 1 + below(chance(50) ? 10 : 100);
            if (chance(60)) hello.receive_maximum = static_cast<std::uint16_t>(1 + below(5));
            if (chance(50)) hello.aliases = static_cast<std::uint16_t>(1 + below(3));
            if (scene_.small_packets && chance(60)) hello.largest_packet = 60 + below(40);
        } else if (!hello.clean) {
            hello.expiry = 60;
        }
        hello.expiry = std::min(hello.expiry, 60u);
        if (scene_.wills && chance(60)) {
            hello.will.emplace();
            Note& will = hello.will->note;
            const bool to_inbox = scene_.inboxes && chance(50);
            will = random_note(client,
                               to_inbox ? std::string(one_of(inbox_topics)) : "w/" + client.name);
            if (!v5) will.message_expiry.reset();
            if (v5 && chance(60)) hello.will->delay = 1 + below(20);
        }
        return hello;
    }

    void connect(Client& client) { connect(client, random_hello(client)); }

    void connect(Client& client, const Hello& hello) {
        const bool v5 = hello.version == Version::v5_0;
        PropertyList properties;
        PropertyList will_properties;
        Connect connect{.version = hello.version, .clean_start = hello.clean, .keepalive = 30};
        connect.client_id = client.name;
        connect.username = client.user;
        if (v5) {
            if (hello.expiry != 0) properties.add(Property::session_expiry_interval, hello.expiry);
            if (hello.receive_maximum != 65'535)
                properties.add(Property::receive_maximum, hello.receive_maximum);
            if (hello.aliases != 0) properties.add(Property::topic_alias_maximum, hello.aliases);
            if (hello.largest_packet != 0)
                properties.add(Property::maximum_packet_size, hello.largest_packet);
        }
        connect.properties = properties.view();
        if (hello.will) {
            const Note& will = hello.will->note;
            if (hello.will->delay != 0)
                will_properties.add(Property::will_delay_interval, hello.will->delay);
            if (will.message_expiry)
                will_properties.add(Property::message_expiry_interval, *will.message_expiry);
            connect.will =
                Will{will.topic, will.payload, will.qos, will.retain, will_properties.view()};
        }
        note("{} connects, {} {} expiry {} receive maximum {} largest {} will {} delay {}",
             client.name, v5 ? "5.0" : "3.1.1", hello.clean ? "clean" : "goes on", hello.expiry,
             hello.receive_maximum, hello.largest_packet,
             hello.will ? hello.will->note.payload : "none", hello.will ? hello.will->delay : 0);

        const auto old = std::exchange(client.link, std::make_unique<KeptLink>(client.shard));
        const bool takes_over = old && old->session;
        client.version = hello.version;
        client.aliases = hello.aliases;
        client.largest_packet = hello.largest_packet;
        client.topics.clear();
        client.own_topics.clear();
        client.due.clear();
        client.session_present.reset();
        client.link->heard = cluster_.now;
        cluster_.adopt(*client.link);
        cluster_.broker(client.shard).login(*client.link, connect, {}, cluster_.now);
        const bool present =
            model_.connect(client.name, client.shard, client.inbox, hello, cluster_.now);
        if (!present) {
            client.received.clear();
            client.sent.clear();
        }
        finish_turn();
        if (!client.there()) broken(client.name + " was not let in");
        if (client.session_present != present)
            broken(client.name + " was told wrongly whether its session is present");
        if (takes_over && (!old->ending || old->ending->reason != Reason::session_taken_over))
            broken(client.name + " still has its old connection");
    }

    void ends(Client& client, bool takes_will_back) {
        // The broker ends it in this turn, and the will goes out before others hear anything.
        cluster_.end_turn();
        model_.end(client.name, takes_will_back, cluster_.now);
        client.due.clear();
        finish_turn();
        client.link.reset();
    }

    void lose_connection(Client& client) {
        note("the connection of {} is lost", client.name);
        client.link->end({Cause::connection_lost, Reason::success, "lost"});
        ends(client, false);
    }

    void disconnect(Client& client) {
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
        note("{} disconnects with {:#x}, expiry {}", client.name,
             static_cast<int>(disconnect.reason), session.hello.expiry);
        handle(client, disconnect);
        if (!client.link->ending) broken(client.name + " is still connected");
        ends(client, takes_will_back);
    }

    void handle(Client& client, const Packet& packet) {
        client.link->heard = cluster_.now;
        cluster_.broker(client.shard).handle(*client.link->session, packet, cluster_.now);
    }

    void get_stuck(Client& client) {
        client.link->stuck = !client.link->stuck;
        model_.find(client.name)->reads = !client.link->stuck;
        note("{} {}", client.name, client.link->stuck ? "gets stuck" : "reads again");
        finish_turn();
    }

    // -- publishing --

    Note random_note(const Client& client, std::string topic) {
        Note made;
        made.topic = std::move(topic);
        made.publisher = client.name;
        made.user = client.user;
        made.payload = fmt::format("{}-{}", client.name, ++payloads_);
        if (scene_.small_packets) made.payload.append(below(70), '.');
        made.qos = QoS{static_cast<std::uint8_t>(below(3))};
        if (is_for_shares(made.topic)) made.qos = QoS{static_cast<std::uint8_t>(1 + below(2))};
        if (scene_.retained && chance(40)) {
            made.retain = true;
            if (chance(20)) made.payload.clear();
        }
        if (scene_.expiring && chance(50)) made.message_expiry = below(15);
        return made;
    }

    void publish(Client& client) {
        auto topic = scene_.shared && chance(70) ? one_of(shared_topics) : one_of(plain_topics);
        if (scene_.inboxes && chance(60)) topic = one_of(inbox_topics);
        Note made = random_note(client, std::string(topic));
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

    void publish(Client& client, const Note& made, std::uint16_t id, bool again) {
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
        note("{} publishes '{}' to {} QoS {} id {}{}{}", client.name, made.payload, made.topic,
             static_cast<int>(made.qos), id, again ? " DUP" : "", made.retain ? " RETAIN" : "");
        ModelSession& session = *model_.find(client.name);
        const bool repeats = made.qos == QoS::exactly_once && session.unreleased.contains(id);
        const bool too_many = made.qos == QoS::exactly_once && !repeats && v5 &&
                              session.unreleased.size() >= scene_.settings.receive_maximum;
        handle(client,
               Publish{again, made.qos, made.retain, topic, id, properties.view(), made.payload});
        if (too_many) {
            if (!client.link->ending ||
                client.link->ending->reason != Reason::receive_maximum_exceeded)
                broken(client.name + " sent more than Receive Maximum");
            return ends(client, false);
        }
        if (!repeats) model_.publish(made, client.shard, cluster_.now);
        if (made.qos == QoS::at_most_once) return expect(client, {});
        if (made.qos == QoS::at_least_once)
            return expect(client, {{PacketType::puback, id, {Reason::success}}});
        session.unreleased.insert(id);
        client.sent[id] = made;
        expect(client, {{PacketType::pubrec, id, {Reason::success}}});
    }

    /// PUBLISH with QoS 2 a second time.
    void send_again(Client& client) {
        if (client.sent.empty()) return;
        const auto [id, made] = one_of(client.sent);
        publish(client, Note(made), id, true);
    }

    void release(Client& client) {
        if (client.sent.empty()) return;
        const auto id = one_of(client.sent).first;
        note("{} releases {}", client.name, id);
        handle(client, Pubrel{id, Reason::success, {}});
        const bool known = model_.find(client.name)->unreleased.erase(id) > 0;
        client.sent.erase(id);
        const bool tells = client.version == Version::v5_0 && !known;
        expect(client, {{PacketType::pubcomp,
                         id,
                         {tells ? Reason::packet_identifier_not_found : Reason::success}}});
        if (!known || !chance(20)) return;
        note("{} releases {} again", client.name, id);
        handle(client, Pubrel{id, Reason::success, {}});
        expect(client, {{PacketType::pubcomp, id, {Reason::success}}});
    }

    // -- acknowledging --

    void acknowledge(Client& client) {
        if (client.due.empty()) return;
        const auto place = client.due.begin() + below(client.due.size());
        const auto [type, id] = *place;
        client.due.erase(place);
        const bool v5 = client.version == Version::v5_0;
        if (type == PacketType::puback) {
            note("{} sends PUBACK {}", client.name, id);
            handle(client,
                   Puback{id, v5 && chance(5) ? Reason::quota_exceeded : Reason::success, {}});
            model_.puback(client.name, id);
        } else if (type == PacketType::pubrec) {
            const bool error = v5 && chance(5);
            note("{} sends PUBREC {}{}", client.name, id, error ? " with an error" : "");
            handle(client, Pubrec{id, error ? Reason::quota_exceeded : Reason::success, {}});
            model_.pubrec(client.name, id, error);
            if (error) client.received.erase(id);
        } else {
            note("{} sends PUBCOMP {}", client.name, id);
            handle(client, Pubcomp{id, Reason::success, {}});
            model_.pubcomp(client.name, id);
        }
        expect(client, {});
    }

    /// Acknowledgements of what is not in flight, which may be late ones.
    void stray(Client& client) {
        const std::uint16_t id = 65'000;
        note("{} acknowledges something else", client.name);
        const auto unknown =
            client.version == Version::v5_0 ? Reason::packet_identifier_not_found : Reason::success;
        switch (below(4)) {
            case 0: handle(client, Puback{id, Reason::success, {}}); return expect(client, {});
            case 1: handle(client, Pubcomp{id, Reason::success, {}}); return expect(client, {});
            case 2:
                handle(client, Pubrec{id, Reason::success, {}});
                return expect(client, {{PacketType::pubrel, id, {unknown}}});
            default:
                handle(client, Pubrel{id, Reason::success, {}});
                return expect(client, {{PacketType::pubcomp, id, {unknown}}});
        }
    }

    void misbehave(Client& client) {
        const auto pick = [&](PacketType type) -> std::uint16_t {
            for (const auto& due : client.due)
                if (due.type == type) return due.id;
            return 0;
        };
        PropertyList properties;
        switch (below(5)) {
            case 0: handle(client, Connect{}); break;
            case 1:
                if (const auto id = pick(PacketType::pubrec)) {
                    handle(client, Puback{id, Reason::success, {}});
                    break;
                }
                return;
            case 2:
                if (const auto id = pick(PacketType::puback)) {
                    handle(client, Pubrec{id, Reason::success, {}});
                    break;
                }
                return;
            case 3:
                if (const auto id = pick(PacketType::pubrec)) {
                    handle(client, Pubcomp{id, Reason::success, {}});
                    break;
                }
                return;
            default:
                if (client.version != Version::v5_0) return;
                properties.add(Property::topic_alias, scene_.settings.topic_alias_maximum + 1u);
                handle(client, Publish{.topic = "a", .properties = properties.view()});
        }
        note("{} breaks the rules", client.name);
        if (!client.link->ending) broken(client.name + " broke the rules and is still there");
        ends(client, false);
    }

    // -- subscriptions --

    void subscribe(Client& client) {
        const bool v5 = client.version == Version::v5_0;
        const bool share = scene_.shared && chance(60);
        Subscribe request{.packet_id = static_cast<std::uint16_t>(1 + below(65'535))};
        PropertyList properties;
        std::uint32_t identifier = 0;
        if (share) {
            // 3.1.1 clients hear no identifiers, and share a topic that has one group.
            const auto group = v5 ? below(std::size(shares)) : 4;
            SubscribeOptions options;
            options.qos = QoS::exactly_once;
            request.filters.push_back({shares[group], options});
            if (v5) identifier = group + 1;
        } else {
            if (v5 && chance(60)) identifier = 1 + below(1000);
            for (auto left = 1 + below(3); left > 0; --left) {
                SubscribeOptions options;
                options.qos = QoS{static_cast<std::uint8_t>(below(3))};
                if (v5) {
                    options.no_local = chance(25);
                    options.retain_as_published = chance(50);
                    options.retain_handling = static_cast<std::uint8_t>(below(3));
                }
                auto filter = scene_.shared ? one_of(plain_topics) : one_of(wide_filters);
                if (scene_.inboxes && chance(40)) filter = one_of(inbox_filters);
                request.filters.push_back({filter, options});
            }
        }
        if (identifier != 0) properties.add(Property::subscription_identifier, identifier);
        request.properties = properties.view();
        Answer right{PacketType::suback, request.packet_id, {}};
        // The model first: what is retained follows the SUBACK in the same turn.
        for (const auto& [filter, options] : request.filters) {
            note("{} subscribes to {} QoS {} identifier {}{}{} handling {}", client.name, filter,
                 static_cast<int>(options.qos), identifier, options.no_local ? " no local" : "",
                 options.retain_as_published ? " as published" : "", options.retain_handling);
            model_.subscribe(client.name, std::string(filter), options, identifier, cluster_.now);
            right.reasons.push_back(static_cast<Reason>(options.qos));
        }
        handle(client, request);
        expect(client, {right});
        if (!cluster_.has_messages()) model_.settle_shares();
    }

    void unsubscribe(Client& client) {
        const auto& subscriptions = model_.find(client.name)->subscriptions;
        std::string filter(one_of(wide_filters));
        if (!subscriptions.empty() && chance(80)) filter = one_of(subscriptions).first;
        note("{} unsubscribes from {}", client.name, filter);
        const bool existed = model_.unsubscribe(client.name, filter);
        Unsubscribe request{.packet_id = 7, .filters = {filter}};
        handle(client, request);
        Answer right{PacketType::unsuback, 7, {}};
        if (client.version == Version::v5_0)
            right.reasons = {existed ? Reason::success : Reason::no_subscription_existed};
        expect(client, {right});
    }

    // -- ends --

    void quiet_down() {
        for (Client& client : clients_)
            if (client.there() && client.link->stuck) get_stuck(client);
        for (bool quiet = false; !quiet;) {
            quiet = true;
            for (Client& client : clients_)
                while (client.there() && !client.due.empty()) {
                    acknowledge(client);
                    quiet = false;
                }
            if (cluster_.has_messages()) {
                deliver_all();
                quiet = false;
            }
        }
        note("all is quiet");
        model_.check_quiet(cluster_.now);
    }

    void everybody_returns() {
        for (Client& client : clients_) {
            if (client.there()) continue;
            Hello hello = random_hello(client);
            hello.clean = false;
            if (hello.version == Version::v3_1_1) hello.expiry = 60;
            connect(client, hello);
        }
        quiet_down();
    }

    /// A new client gets the same retained messages on every shard.
    void look_at_what_is_retained() {
        if (!scene_.retained) return;
        std::set<unsigned> seen;
        for (int i = 0; seen.size() < scene_.shards; ++i) {
            const std::string name = "new-client" + std::to_string(i);
            if (!seen.insert(home_shard(name, scene_.shards)).second) continue;
            Client& new_client = add_client(name, name, "inbox/" + name);
            connect(new_client, Hello{});
            SubscribeOptions options;
            options.qos = QoS::exactly_once;
            model_.subscribe(name, "#", options, 0, cluster_.now);
            handle(new_client, Subscribe{.packet_id = 1, .filters = {{"#", options}}});
            expect(new_client, {{PacketType::suback, 1, {Reason::granted_qos_2}}});
        }
        quiet_down();
        for (unsigned shard = 1; shard < scene_.shards; ++shard)
            if (model_.retained(shard, cluster_.now) != model_.retained(0, cluster_.now))
                broken("the shards do not retain the same");
    }

    void everybody_leaves() {
        for (Client& client : clients_)
            if (client.there()) chance(50) ? disconnect(client) : lose_connection(client);
        advance(100);
        deliver_all();
        for (unsigned shard = 0; shard < scene_.shards; ++shard) {
            const Broker& broker = cluster_.broker(shard);
            const auto none = [&](const char* what, std::size_t left) {
                if (left != 0) broken(fmt::format("{} {} are left", left, what));
            };
            none("sessions", broker.sessions().connected() + broker.sessions().disconnected());
            none("subscriptions", broker.subscriptions());
            none("waiting messages", broker.waiting());
            none("queues", cluster_.queues(shard));
            none("shared subscriptions", broker.share_groups());
            none("who lag behind", broker.sessions().behind());
            for (const auto topic : plain_topics)
                none("interests", cluster_.interest(shard).wants(topic));
            for (const auto topic : shared_topics)
                none("interests", cluster_.interest(shard).wants(topic));
            for (const auto topic : inbox_topics)
                none("interests", cluster_.interest(shard).wants(topic));
        }
    }

    const Scene scene_;
    std::mt19937 random_;
    BrokerCluster cluster_;
    SessionModel model_;
    std::deque<Client> clients_;
    std::map<MessageRef, const Note*> notes_;
    std::deque<std::string> journal_;
    int step_ = 0;
    unsigned payloads_ = 0;
};

/// Plays the scene with every seed, and says which one goes wrong.
struct Seen {
    std::uint64_t received = 0, resent = 0, retained = 0, shared = 0, wills = 0;
    std::uint64_t full = 0, expired = 0, too_large = 0, by_inbox = 0;
};

Seen play(const Scene& scene) {
    Seen seen;
    for (unsigned seed = 1; seed <= seeds; ++seed) {
        Play play(scene, seed);
        try {
            play.run();
        } catch (const Broken& rule) {
            const std::string where =
                fmt::format("seed {}, step {}: {}\n", seed, play.step(), rule.what());
            FAIL(where << play.journal());
        }
        const SessionModel& model = play.model();
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
    return seen;
}

}  // namespace

TEST_CASE("model: every message reaches each subscriber's session once, in order") {
    for (const unsigned shards : {1u, 3u}) {
        Scene plain = scene();
        plain.shards = shards;
        plain.misbehaving = true;
        const Seen seen = play(plain);
        CHECK(seen.received > 1000);
        CHECK(seen.resent > 100);
    }
}

TEST_CASE("model: small limits lose the oldest messages, and count them") {
    Scene small = scene();
    small.settings.max_queued_messages = 3;
    small.settings.max_inflight = 2;
    small.settings.receive_maximum = 2;
    small.settings.topic_alias_maximum = 2;
    keep_few_sessions(small, 6);
    const Seen seen = play(small);
    CHECK(seen.full > 100);
}

TEST_CASE("model: messages that expire or are too large are left out, and nothing else is") {
    Scene passing = scene();
    passing.expiring = true;
    passing.small_packets = true;
    const Seen seen = play(passing);
    CHECK(seen.expired > 10);
    CHECK(seen.too_large > 10);
}

TEST_CASE("model: wills are published when they are due, and not otherwise") {
    Scene mortal = scene();
    mortal.wills = true;
    mortal.expiring = true;
    mortal.misbehaving = true;
    keep_few_sessions(mortal, 9);
    const Seen seen = play(mortal);
    CHECK(seen.wills > 100);
}

TEST_CASE("model: a new subscriber is told what is retained") {
    for (const unsigned shards : {1u, 3u}) {
        Scene lasting = scene();
        lasting.shards = shards;
        lasting.retained = true;
        lasting.wills = true;
        lasting.expiring = true;
        const Seen seen = play(lasting);
        CHECK(seen.retained > 1000);
    }
}

TEST_CASE("model: a shared subscription's message goes to one member, while one is there") {
    for (const unsigned shards : {1u, 3u}) {
        Scene sharing = scene();
        sharing.shards = shards;
        sharing.shared = true;
        const Seen seen = play(sharing);
        CHECK(seen.shared > 300);
    }
}

TEST_CASE("model: an inbox reaches all sessions of its user once, whatever they subscribe to") {
    for (const unsigned shards : {1u, 3u}) {
        Scene busy = scene();
        busy.shards = shards;
        busy.inboxes = true;
        busy.wills = true;
        busy.expiring = true;
        busy.small_packets = true;
        busy.misbehaving = true;
        CHECK(play(busy).by_inbox > 100);

        Scene small = scene();
        small.shards = shards;
        small.inboxes = true;
        small.wills = true;
        small.settings.max_queued_messages = 3;
        small.settings.max_inflight = 2;
        keep_few_sessions(small, 6);
        CHECK(play(small).full > 100);

        Scene lasting = scene();
        lasting.shards = shards;
        lasting.inboxes = true;
        lasting.retained = true;
        CHECK(play(lasting).retained > 1000);
    }
}

TEST_CASE("model: with inbox off its topics are like others") {
    Scene off = scene();
    off.settings.inbox = false;
    off.inboxes = true;
    off.wills = true;
    const Seen seen = play(off);
    CHECK(seen.received > 1000);
    CHECK(seen.by_inbox == 0);
}
