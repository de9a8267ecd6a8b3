// A conversation has one order: what one client publishes to one topic comes in the order in which
// it was published, at QoS 1 and 2 alike, however commits, connections and restarts fall.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "server/session/terms/homes.h"
#include "tests/support/durable_cluster.h"
#include "tests/support/durable_steps.h"
#include "tests/support/lobby.h"
#include "tests/support/sanitized.h"

using namespace pulsegate;

namespace {

using Number = unsigned;

struct Terms {
    std::string name;
    bool keeps_session;
    std::uint16_t window = 65'535;
};

/// The brokers, and what has happened.
class Stage : public DurableCluster {
public:
    using DurableCluster::DurableCluster;

    void note(std::string event) { events_.push_back(std::move(event)); }
    std::string last_events() const {
        constexpr std::size_t most = 60;
        std::string all;
        for (std::size_t i = events_.size() - std::min(events_.size(), most); i < events_.size();
             ++i)
            all += "\n  " + events_[i];
        return all;
    }

private:
    std::vector<std::string> events_;
};

/// A client of 5.0 and its own user, over many connections.
class Peer {
public:
    Peer(Stage& brokers, Terms terms)
        : brokers_(brokers), terms_(std::move(terms)), home_(Homes(shards()).shard_of(name())) {}
    virtual ~Peer() = default;

    const std::string& name() const { return terms_.name; }
    bool is_connected() const { return link_ && link_->session && !link_->ending; }
    /// Does it know so by a CONNACK?
    bool is_here() const { return is_connected() && has_connack_; }

    void connect() {
        note("connects");
        has_connack_ = false;
        link_ = &links_.emplace_back(home_);
        brokers_->adopt(*link_);
        const std::string expiry = terms_.keeps_session ? "11 w86400 " : "";
        const std::string bytes =
            wire("10 r s'MQTT' 05 " + std::string(terms_.keeps_session ? "00" : "02") + " k60 [ " +
                 expiry + "21 k" + std::to_string(terms_.window) + " ] s'" + name() + "'");
        const auto decoded = decode(as_bytes(bytes), Version::v5_0, Sender::client);
        brokers_->broker(home_).logins().login(*link_, std::get<Connect>(std::get<Packet>(decoded)),
                                               {.user = name()}, brokers_->now);
        brokers_->end_turn();
    }
    void lose_connection() {
        read();
        note("loses its connection");
        link_->end({Cause::connection_lost, Reason::success, "lost"});
        brokers_->end_turn();
    }
    void crash() { link_ = nullptr; }
    /// Reads what has come; false if nothing has.
    bool read() {
        if (!link_) return false;
        const std::string bytes = std::exchange(link_->bytes, {});
        for (Bytes rest = as_bytes(bytes); !rest.empty();) {
            const Bytes packet = rest.first(next_frame(rest, bytes.size()).size);
            rest = rest.subspan(packet.size());
            const auto decoded = decode(packet, Version::v5_0, Sender::server);
            REQUIRE(std::holds_alternative<Packet>(decoded));
            const auto& received = std::get<Packet>(decoded);
            has_connack_ |= std::holds_alternative<Connack>(received);
            receive(received);
        }
        return !bytes.empty();
    }
    void send(const std::string& notation) {
        const std::string bytes = wire(notation);
        const auto decoded = decode(as_bytes(bytes), Version::v5_0, Sender::client);
        brokers_->broker(home_).handle(*link_->session, std::get<Packet>(decoded), brokers_->now);
        brokers_->end_turn();
    }

protected:
    virtual void receive(const Packet& packet) = 0;
    bool keeps_session() const { return terms_.keeps_session; }
    void note(const std::string& what) { brokers_.note(name() + " " + what); }

private:
    unsigned shards() { return brokers_->shards(); }

    Stage& brokers_;
    const Terms terms_;
    const unsigned home_;
    std::list<KeptLink> links_;
    KeptLink* link_ = nullptr;
    bool has_connack_ = false;
};

std::string id_of(std::uint16_t packet_id) { return " k" + std::to_string(packet_id); }

/// It publishes "name number" to topics, and sends again what was not answered.
class Publisher : public Peer {
public:
    using Peer::Peer;

    void publish(const std::string& topic, int qos) {
        const Message message{++last_, topic, qos, qos == 0 ? std::uint16_t{0} : free_id()};
        if (qos > 0) sent_.push_back(message);
        send(message, false);
    }
    bool has_room() const { return sent_.size() < 20; }
    bool is_idle() const { return sent_.empty(); }
    bool has_answer(const std::string& topic, Number number) const {
        return answered_.contains({topic, number});
    }
    const std::set<std::pair<std::string, Number>>& answered() const { return answered_; }

private:
    struct Message {
        Number number;
        std::string topic;
        int qos;
        std::uint16_t packet_id;
        bool is_received = false;  ///< PUBREC has come
    };

    void send(const Message& message, bool again) {
        note((again ? "publishes again " : "publishes ") + std::to_string(message.number) +
             " at QoS " + std::to_string(message.qos));
        const int flags = 0x30 + 2 * message.qos + (again ? 8 : 0);
        constexpr std::string_view digits = "0123456789abcdef";
        const auto digit = [&](int place) { return digits[static_cast<std::size_t>(place)]; };
        const std::string id = message.qos == 0 ? "" : id_of(message.packet_id);
        Peer::send(std::string{digit(flags / 16), digit(flags % 16)} + " r s'" + message.topic +
                   "'" + id + " [ ] '" + name() + " " + std::to_string(message.number) +
                   (again ? " again'" : "'"));
    }
    std::uint16_t free_id() {
        const auto is_used = [&](const Message& each) { return each.packet_id == last_id_; };
        do last_id_ = static_cast<std::uint16_t>(last_id_ % 100 + 1);
        while (std::ranges::any_of(sent_, is_used));
        return last_id_;
    }
    std::list<Message>::iterator find(std::uint16_t packet_id) {
        const auto found = std::ranges::find(sent_, packet_id, &Message::packet_id);
        REQUIRE(found != sent_.end());
        return found;
    }
    void receive(const Packet& packet) override {
        if (const auto* connack = std::get_if<Connack>(&packet)) return resume(*connack);
        if (const auto* puback = std::get_if<Puback>(&packet)) {
            answered(*find(puback->packet_id));
            sent_.erase(find(puback->packet_id));
        } else if (const auto* pubrec = std::get_if<Pubrec>(&packet)) {
            Message& message = *find(pubrec->packet_id);
            answered(message);
            message.is_received = true;
            release(message);
        } else if (const auto* pubcomp = std::get_if<Pubcomp>(&packet)) {
            sent_.erase(find(pubcomp->packet_id));
        }
    }
    void resume(const Connack& connack) {
        if (!connack.session_present) sent_.clear();
        for (const Message& each : std::list<Message>(sent_))
            if (each.is_received)
                release(each);
            else
                send(each, true);
    }
    void release(const Message& message) {
        if (is_here()) Peer::send("62 r" + id_of(message.packet_id) + " 00 [ ]");
    }
    void answered(const Message& message) {
        note("is answered " + std::to_string(message.number));
        answered_.insert({message.topic, message.number});
    }

    std::list<Message> sent_;
    std::set<std::pair<std::string, Number>> answered_;
    Number last_ = 0;
    std::uint16_t last_id_ = 0;
};

/// What has come, of one reader or of all members of a group: first deliveries of each conversation
/// in order, unless members share it, and of QoS 2 once.
class Book {
public:
    explicit Book(bool checks_order) : checks_order_(checks_order) {}

    void enter(const std::string& topic, std::string_view text, QoS qos, bool keeps_session) {
        const auto space = text.find(' ');
        Conversation& got = got_[{topic, std::string(text.substr(0, space))}];
        const auto number = static_cast<Number>(std::stoul(std::string(text.substr(space + 1))));
        const bool is_first = got.numbers.insert(number).second;
        INFO("got ", std::string(text), " at QoS ", static_cast<int>(qos), " to ", topic);
        if (qos == QoS::exactly_once && keeps_session) REQUIRE(is_first);
        if (!is_first || !checks_order_) return;
        // An earlier session may have ended with it.
        if (!keeps_session && text.ends_with("again")) return;
        REQUIRE(number > (qos == QoS::at_most_once ? got.latest_of_all : got.latest));
        if (qos != QoS::at_most_once) got.latest = number;
        got.latest_of_all = std::max(got.latest_of_all, number);
    }
    bool has(const std::string& topic, const std::string& publisher, Number number) const {
        const auto found = got_.find({topic, publisher});
        return found != got_.end() && found->second.numbers.contains(number);
    }

private:
    struct Conversation {
        std::set<Number> numbers{};
        Number latest = 0;         ///< of QoS 1 and 2
        Number latest_of_all = 0;  ///< QoS 0 does not wait for others, but never comes late
    };

    const bool checks_order_;
    std::map<std::pair<std::string, std::string>, Conversation> got_;
};

class ReadingPeer : public Peer {
public:
    ReadingPeer(Stage& brokers, Terms terms, Book& book)
        : Peer(brokers, std::move(terms)), book_(book) {}

    /// Sends the oldest acknowledgement that is due; false if none is.
    bool acknowledge() {
        if (due_.empty() || !is_here()) return false;
        const std::string packet = std::move(due_.front());
        due_.pop_front();
        note("acknowledges: " + packet);
        send(packet);
        return true;
    }

private:
    void receive(const Packet& packet) override {
        if (const auto* connack = std::get_if<Connack>(&packet)) {
            due_.clear();
            if (!connack->session_present) unreleased_.clear();
        } else if (const auto* publish = std::get_if<Publish>(&packet)) {
            take(*publish);
        } else if (const auto* pubrel = std::get_if<Pubrel>(&packet)) {
            unreleased_.erase(pubrel->packet_id);
            due_.push_back("70 r" + id_of(pubrel->packet_id) + " 00 [ ]");
        }
    }
    void take(const Publish& publish) {
        if (publish.qos == QoS::at_least_once)
            due_.push_back("40 r" + id_of(publish.packet_id) + " 00 [ ]");
        if (publish.qos == QoS::exactly_once) {
            due_.push_back("50 r" + id_of(publish.packet_id) + " 00 [ ]");
            if (!unreleased_.insert(publish.packet_id).second) return;
        }
        note("gets " + std::string(publish.payload) + " as" + id_of(publish.packet_id));
        book_.enter(std::string(publish.topic), publish.payload, publish.qos, keeps_session());
    }

    Book& book_;
    std::deque<std::string> due_;
    std::set<std::uint16_t> unreleased_;
};

struct Place {
    std::string topic;
    std::string filter;  ///< empty: it comes without a subscription
    bool keeps_session = true;
    int readers = 1;
};

/// Some publishers, and a reader of a topic, an inbox, a room or a shared subscription.
class Play {
public:
    Play(unsigned seed, Place place)
        : random_(seed),
          place_(std::move(place)),
          brokers_(1 + pick(3), settings()),
          book_(place_.readers == 1) {
        const std::vector<std::uint16_t> windows{1, 2, 65'535};
        for (int i = 0; i < place_.readers; ++i) {
            const std::string user = at_any_shard("reader" + std::to_string(i));
            if (place_.topic.starts_with("inbox/")) place_.topic += user;
            if (place_.topic.starts_with("room/"))
                brokers_->broker(Homes(brokers_->shards()).shard_of(user))
                    .admin()
                    .rooms()
                    .add(place_.topic, user);
            const Terms terms{user, place_.keeps_session, windows[pick(windows.size())]};
            readers_.push_back(std::make_unique<ReadingPeer>(brokers_, terms, book_));
        }
        for (const char* name : {"ann", "ben"})
            publishers_.push_back(
                std::make_unique<Publisher>(brokers_, Terms{at_any_shard(name), pick(3) != 0}));
        for (auto& each : publishers_) each->connect();
        for (auto& each : readers_)
            if (place_.keeps_session) each->connect();
        settle();
        for (auto& each : readers_)
            if (!place_.filter.empty()) each->send("82 r k9 [ ] s'" + place_.filter + "' 02");
        settle();
    }

    std::string last_events() const { return brokers_.last_events(); }
    void run() {
        const unsigned steps = 30 + pick(120);
        for (unsigned step = 0; step < steps; ++step) do_something();
        finish();
    }

private:
    static BrokerSettings settings() {
        BrokerSettings settings;
        settings.queue_memory = 2000;  // so that the rest is read from the store
        return settings;
    }
    unsigned pick(std::size_t count) { return static_cast<unsigned>(random_() % count); }
    std::string at_any_shard(const std::string& name) {
        return user_at(pick(brokers_->shards()), brokers_->shards(), name);
    }
    Publisher& any_publisher() { return *publishers_[pick(publishers_.size())]; }
    ReadingPeer& any_reader() { return *readers_[pick(readers_.size())]; }

    void do_something() {
        const unsigned what = pick(100);
        if (what < 40)
            publish();
        else if (what < 62)
            deliver_some();
        else if (what < 70)
            commit();
        else if (what < 84)
            any_reader().acknowledge();
        else if (what < 92)
            come_or_go(any_reader());
        else if (what < 94)
            come_or_go(any_publisher());
        else if (what < 97)
            pass(brokers_, 50);
        else if (what < 98)
            settle();
        else if (pick(2) == 0)
            crash();
        read_all();
    }
    void publish() {
        Publisher& publisher = any_publisher();
        if (publisher.is_here() && publisher.has_room())
            publisher.publish(place_.topic, static_cast<int>(pick(5) + 1) / 2);
    }
    void deliver_some() {
        for (unsigned left = 1 + pick(4); left > 0; --left) {
            const auto pairs = brokers_->pairs_with_messages();
            if (pairs.empty()) return;
            const auto& [from, to] = pairs[pick(pairs.size())];
            brokers_.note("from " + std::to_string(from) + " to " + std::to_string(to));
            brokers_.deliver({from, to});
        }
    }
    static void come_or_go(Peer& peer) {
        if (peer.is_connected())
            peer.lose_connection();
        else
            peer.connect();
    }
    void commit() {
        brokers_.note("commit");
        brokers_.commit();
    }
    void crash() {
        read_all();
        brokers_.note("crash");
        brokers_.crash();
        brokers_.deliver();  // before anybody connects, groups know their members
        for (auto& each : readers_) each->crash();
        for (auto& each : publishers_) each->crash();
    }
    bool read_all() {
        bool any = false;
        for (auto& each : readers_) any |= each->read();
        for (auto& each : publishers_) any |= each->read();
        return any;
    }
    void settle() {
        brokers_.note("settle");
        do brokers_.settle();
        while (read_all());
    }
    /// Everybody is here until all is complete.
    void finish() {
        for (auto& each : publishers_)
            if (!each->is_connected()) each->connect();
        for (auto& each : readers_)
            if (!each->is_connected()) each->connect();
        bool any = true;
        while (any) {
            settle();
            pass(brokers_, 200);
            any = brokers_->has_messages();
            for (auto& each : readers_) any |= each->acknowledge();
        }
        for (const auto& publisher : publishers_) {
            CHECK(publisher->is_idle());
            if (!place_.keeps_session) continue;
            for (const auto& [topic, number] : publisher->answered()) {
                INFO(publisher->name(), " ", number, " to ", topic);
                CHECK(book_.has(topic, publisher->name(), number));
            }
        }
    }

    std::mt19937 random_;
    Place place_;
    Stage brokers_;
    Book book_;
    std::vector<std::unique_ptr<ReadingPeer>> readers_;
    std::vector<std::unique_ptr<Publisher>> publishers_;
};

void play(const Place& place) {
    const char* const asked = std::getenv("PULSEGATE_ORDER_PLAYS");
    const int plays = asked ? std::atoi(asked) : sanitized ? 20 : 60;
    for (int seed = 1; seed <= plays; ++seed) {
        CAPTURE(seed);
        Play play(static_cast<unsigned>(seed), place);
        INFO(play.last_events());
        play.run();
    }
}

}  // namespace

TEST_CASE("one order: a topic, for a session that is kept") { play({"t", "t"}); }

TEST_CASE("one order: a topic of several filters") { play({"t", "+"}); }

TEST_CASE("one order: an inbox, for a device that keeps its session") { play({"inbox/", ""}); }

TEST_CASE("one order: an inbox, for devices that keep none") { play({"inbox/", "", false}); }

TEST_CASE("one order: a room, for a member that keeps a session") { play({"room/r", ""}); }

TEST_CASE("one order: a room, for a member without a session") { play({"room/r", "", false}); }

TEST_CASE("one order: a shared subscription with one member") { play({"t", "$share/g/t"}); }

TEST_CASE("members of a shared subscription lose and repeat nothing") {
    play({"t", "$share/g/t", true, 3});
}
