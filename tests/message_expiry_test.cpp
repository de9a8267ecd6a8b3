// Messages that have expired give up their places: in queues, in accounts and in counts.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "server/base/clock.h"
#include "server/base/hash.h"
#include "server/session/client_description.h"
#include "tests/support/durable_cluster.h"
#include "tests/support/test_store.h"

using namespace pulsegate;

namespace {

/// The kind of queue.
enum class Target { session, inbox, room };

const std::vector<std::string> publishers{"bob", "carl", "dora"};

/// The wall clock goes on in a test, so intervals are long.
constexpr unsigned unit = 1000;  // seconds

BrokerSettings small_queues() {
    BrokerSettings settings;
    settings.max_queued_messages = 8;
    settings.max_queued_bytes = 6000;
    settings.queue_memory = 0;
    settings.sender_property = "";
    settings.inbox_expiry = settings.max_session_expiry = Millis{1'000'000} * unit;
    return settings;
}

/// A session, an inbox or a room member with waiting messages.
class Waiting {
public:
    Waiting(Target target, bool is_stored, const BrokerSettings& settings)
        : brokers(1, settings, is_stored), target(target) {
        const std::map<Target, std::string> topics{
            {Target::session, "t"}, {Target::inbox, "inbox/ann"}, {Target::room, "room/r"}};
        topic = topics.at(target);
        if (target == Target::room) brokers->broker(0).admin().rooms().add(topic, "ann");
        if (target == Target::session) {
            client.connect(false);
            client.send("82 r k1 s't' 01");
            brokers.settle();
            client.lose_connection();
        }
        brokers.settle();
        connect_publishers();
    }

    void connect_publishers() {
        publishers_.clear();
        for (const std::string& name : publishers) {
            publishers_.push_back(
                std::make_unique<PlainClient>(brokers, name, name, Version::v5_0));
            publishers_.back()->connect(true, 0);
        }
        brokers.settle();
    }

    /// `interval`: in seconds; 0: it never expires.
    void publish(const std::string& payload, unsigned interval, std::size_t publisher = 0) {
        try_to_publish(payload, interval, publisher);
        CHECK(answer == hex(wire("40 02 k1")));  // no error
    }
    void publish_too_much(const std::string& payload) {
        try_to_publish(payload, 0);
        CHECK(answer == hex(wire("40 03 k1 97")));
    }
    void try_to_publish(const std::string& payload, unsigned interval, std::size_t publisher = 0) {
        const std::string properties = interval == 0 ? "[ ]" : fmt::format("[ 02 w{} ]", interval);
        PlainClient& from = *publishers_[publisher];
        from.take();
        from.send(fmt::format("32 r s'{}' k1 {} '{}'", topic, properties, payload));
        brokers.settle();
        answer = from.take();
    }
    void pass(unsigned seconds) {
        brokers->now += Millis{seconds} * 1000;
        wall_.advance(Millis{seconds} * 1000);
    }
    /// Somebody sets the wall clock ahead.
    void set_clock_ahead(unsigned seconds) { wall_.advance(Millis{seconds} * 1000); }
    void tick() {
        pass(1);
        while (broker().tick(brokers->now)) {
        }
        brokers.settle();
    }
    /// Meanwhile the gateway is down.
    void crash(unsigned seconds) {
        brokers.settle();
        brokers.kill();
        wall_.advance(Millis{seconds} * 1000);
        brokers.start();
        connect_publishers();
    }
    /// The payloads that ann gets when she comes.
    std::vector<std::string> received() {
        client.connect(false);
        brokers.settle();
        std::vector<std::string> texts;
        for (const auto& each : client.take_messages()) texts.push_back(each.text);
        return texts;
    }

    Broker& broker() { return brokers->broker(0); }
    std::uint64_t expired() { return brokers->sum(&Counters::dropped_expired); }
    std::uint64_t dropped() { return brokers->sum(&Counters::dropped_queue_full); }

private:
    MovedWallClock wall_;  // goes on with the brokers' clock

public:
    DurableCluster brokers;
    const Target target;
    std::string topic;
    std::string answer{};  ///< to the last message
    PlainClient client{brokers, "ann"};

private:
    std::vector<std::unique_ptr<PlainClient>> publishers_;
};

/// A queue that knows its expired messages.
class QueueModel {
public:
    struct Message {
        std::string payload;
        std::uint32_t sender;
        std::size_t cost;
        Millis expires;
        bool is_restored = false;
    };

    explicit QueueModel(const BrokerSettings& settings) : settings_(settings) {}

    void publish(const Message& message, Millis now) {
        if (is_full(message)) expire(now);
        bool has_room = true;
        while (has_room && is_full(message)) has_room = drop_oldest_of_largest(message);
        if (has_room) queue_.push_back(message);
    }
    void expire(Millis now) {
        expired_ += std::erase_if(
            queue_, [&](const Message& each) { return has_expired(each.expires, now); });
    }
    /// So much time has passed that the brokers' clock does not show.
    void restart(Millis now, Millis down, std::size_t topic) {
        expired_ = dropped_ = 0;
        for (Message& each : queue_) {
            if (each.expires != 0) each.expires = std::max<Millis>(each.expires - down, 1);
            if (!each.is_restored) each.cost -= topic;  // is not counted any more
            each.is_restored = true;
        }
        expire(now);
    }

    const std::vector<Message>& queue() const { return queue_; }
    std::size_t bytes() const {
        std::size_t sum = 0;
        for (const Message& each : queue_) sum += each.cost;
        return sum;
    }
    std::size_t expired_count() const { return expired_; }
    std::size_t dropped_count() const { return dropped_; }

private:
    bool is_full(const Message& next) const {
        return !queue_.empty() && (queue_.size() >= settings_.max_queued_messages ||
                                   bytes() + next.cost > settings_.max_queued_bytes);
    }
    bool drop_oldest_of_largest(const Message& next) {
        std::map<std::uint32_t, std::size_t> shares{{next.sender, next.cost}};
        for (const Message& each : queue_) shares[each.sender] += each.cost;
        std::uint32_t largest = next.sender;
        for (const auto& [sender, bytes] : shares)
            if (bytes > shares[largest] || (bytes == shares[largest] && sender > largest))
                largest = sender;
        const auto oldest = std::ranges::find(queue_, largest, &Message::sender);
        ++dropped_;
        if (oldest == queue_.end()) return false;
        queue_.erase(oldest);
        return true;
    }

    const BrokerSettings& settings_;
    std::vector<Message> queue_;
    std::size_t expired_ = 0;
    std::size_t dropped_ = 0;
};

/// What happens at random to a queue and its model.
class Play {
public:
    Play(Target target, bool is_stored, unsigned seed)
        : random_(seed), is_stored_(is_stored), waiting_(target, is_stored, settings_) {}

    void step() {
        switch (random_() % 8) {
            case 0: return waiting_.pass(unit * random_below(3));
            case 1: return look();
            case 2:
                if (is_stored_ && random_() % 4 == 0) return crash();
                [[fallthrough]];
            default: publish();
        }
    }
    void end() {
        look();
        std::vector<std::string> expected;
        for (const auto& each : model_.queue()) expected.push_back(each.payload);
        CHECK(waiting_.received() == expected);
    }

    /// How often the session was found packed.
    std::size_t packed() const { return packed_; }

private:
    void publish() {
        const std::size_t publisher = random_() % 2 == 0 ? 0 : random_() % 3;
        const std::string payload =
            fmt::format("{} {}", ++number_, std::string(random_() % 900, '.'));
        const unsigned interval = random_() % 3 == 0 ? 0 : unit * random_below(4) + unit / 2;
        model_.publish({.payload = payload,
                        .sender = static_cast<std::uint32_t>(fingerprint(publishers[publisher])),
                        .cost = Message().cost() + waiting_.topic.size() + payload.size(),
                        .expires = interval == 0 ? 0 : now() + Millis{interval} * 1000},
                       now());
        waiting_.publish(payload, interval, publisher);
        check();
    }
    /// Counts of waiting messages do not include expired ones.
    void look() {
        waiting_.tick();
        packed_ += waiting_.broker().admin().sessions().packed();
        model_.expire(now());
        const auto clients = waiting_.broker().admin().clients("ann", {}, 10, now()).clients;
        check();
        if (waiting_.target != Target::session) return;
        REQUIRE(clients.size() == 1);
        CHECK(clients[0].queued == model_.queue().size());
        CHECK(clients[0].queued_bytes == model_.bytes());
    }
    void check() {
        REQUIRE(waiting_.broker().waiting() == model_.queue().size());
        REQUIRE(waiting_.expired() == model_.expired_count());
        REQUIRE(waiting_.dropped() == model_.dropped_count());
    }
    void crash() {
        const unsigned down = unit * random_below(3);
        waiting_.crash(down);
        model_.restart(now(), Millis{down} * 1000, waiting_.topic.size());
        check();
    }
    Millis now() { return waiting_.brokers->now; }

    const BrokerSettings settings_ = small_queues();
    unsigned random_below(unsigned bound) { return static_cast<unsigned>(random_() % bound); }

    std::mt19937 random_;
    const bool is_stored_;
    Waiting waiting_;
    QueueModel model_{settings_};
    int number_ = 0;
    std::size_t packed_ = 0;
};

}  // namespace

TEST_CASE("a message that lives is never dropped while an expired one keeps a place") {
    std::size_t packed = 0;
    for (const Target target : {Target::session, Target::inbox, Target::room})
        for (const bool is_stored : {false, true})
            for (unsigned seed = 1; seed <= 6; ++seed) {
                CAPTURE(static_cast<int>(target));
                CAPTURE(is_stored);
                CAPTURE(seed);
                Play play(target, is_stored, seed);
                for (int step = 0; step < 80; ++step) {
                    CAPTURE(step);
                    play.step();
                }
                play.end();
                packed += play.packed();
            }
    CHECK(packed > 0);
}

TEST_CASE("a full queue of messages that live costs no look at each of them") {
    BrokerSettings settings = small_queues();
    settings.max_queued_messages = 1000;
    settings.max_queued_bytes = 10'000'000;
    for (const unsigned interval : {0u, unit}) {
        CAPTURE(interval);
        Waiting waiting(Target::session, false, settings);
        for (int i = 0; i < 1001; ++i) waiting.publish("!", interval);  // the last one counts them
        const auto before = waiting.broker().work();
        waiting.publish("!", interval);
        CHECK(waiting.dropped() == 2);
        CHECK(waiting.broker().work() - before < 20);
    }
}

TEST_CASE("a message that expires at another time does not cost a look at the others") {
    BrokerSettings settings = small_queues();
    settings.max_queued_messages = 1000;
    settings.max_queued_bytes = 10'000'000;
    Waiting waiting(Target::session, false, settings);
    for (unsigned i = 0; i < 1000; ++i) waiting.publish("!", unit + i);
    waiting.pass(unit);
    for (int i = 0; i < 10; ++i) {
        const auto before = waiting.broker().work();
        waiting.pass(1);
        waiting.publish("!", 0);
        CHECK(waiting.broker().work() - before < 20);
    }
    CHECK(waiting.dropped() == 0);
    CHECK(waiting.expired() == 10);
}

TEST_CASE(
    "if the clock is set ahead, a message that is only on disk waits until its interval ends") {
    for (const Target target : {Target::session, Target::inbox, Target::room}) {
        CAPTURE(static_cast<int>(target));
        Waiting waiting(target, true, small_queues());
        waiting.publish("dies", unit);
        waiting.publish("lives", 3 * unit);
        waiting.tick();
        waiting.set_clock_ahead(4 * unit);
        waiting.pass(2 * unit);
        CHECK(waiting.received() == std::vector<std::string>{"lives"});
        CHECK(waiting.expired() == 1);
    }
}

TEST_CASE("a message that has expired before it waits takes no place") {
    BrokerSettings settings = small_queues();
    settings.max_queued_messages = 1;
    for (const Target target : {Target::session, Target::inbox, Target::room}) {
        Waiting waiting(target, true, settings);
        waiting.publish("lives", 0);
        auto dead = std::make_shared<Message>(Message{.topic = waiting.topic,
                                                      .payload = "dead",
                                                      .properties = {},
                                                      .qos = QoS::at_least_once,
                                                      .expires = waiting.brokers->now - 1,
                                                      .stamp = next_stamp()});
        waiting.broker().receive(dead, waiting.brokers->now);
        CHECK(waiting.expired() == 1);
        CHECK(waiting.received() == std::vector<std::string>{"lives"});
    }
}

TEST_CASE("expired messages go before those that live when the memory or the disk is short") {
    std::vector<std::string> expected{"lives 1", "lives 2"};
    bool grows = false;
    SUBCASE("in the queue that grows") {
        grows = true;
        expected.emplace_back("lives 3");
    }
    SUBCASE("in all that wait") {}
    for (const bool is_store_short : {false, true})
        for (const Target target : {Target::session, Target::inbox, Target::room}) {
            CAPTURE(is_store_short);
            CAPTURE(static_cast<int>(target));
            Waiting waiting(target, is_store_short, small_queues());
            const std::string large(500, '.');
            waiting.publish("dies 1" + large, unit);
            waiting.publish("lives 1", 0);
            waiting.publish("dies 2" + large, unit);
            waiting.publish("lives 2", 0);
            waiting.pass(unit + 1);
            waiting.brokers->is_store_full = is_store_short;
            if (!is_store_short) waiting.brokers->memory = MemoryState::used_up;
            if (grows)
                waiting.publish("lives 3", 0);
            else
                waiting.tick();
            waiting.brokers->is_store_full = false;
            waiting.brokers->memory = MemoryState::plenty;
            CHECK(waiting.received() == expected);
            CHECK(waiting.expired() == 2);
            CHECK(waiting.dropped() == 0);
        }
}

TEST_CASE("inboxes in which everything has expired make room for others") {
    BrokerSettings settings = small_queues();
    SUBCASE("at max-inboxes") { settings.max_inboxes = 2; }
    SUBCASE("at max-inboxes-per-user") { settings.max_inboxes_per_user = 2; }
    Waiting waiting(Target::inbox, true, settings);
    waiting.publish("for ann", unit);
    waiting.topic = "inbox/eve";
    waiting.publish("for eve", 0);
    waiting.topic = "inbox/fay";
    waiting.publish_too_much("too many");
    CHECK(waiting.brokers->sum(&Counters::dropped_no_inbox) == 1);
    waiting.pass(unit + 1);
    waiting.publish("for fay", 0);
    CHECK(waiting.brokers->sum(&Counters::dropped_no_inbox) == 1);
    CHECK(waiting.expired() == 1);
    waiting.topic = "inbox/gus";
    waiting.publish_too_much("too many");
    CHECK(waiting.brokers->sum(&Counters::dropped_no_inbox) == 2);
}

TEST_CASE("messages that have expired while the gateway was down do not wait afterwards") {
    const QuietLog quiet;
    const TemporaryFolder folder;
    FaultyDisk disk;
    const SqliteLedger::Options options{.folder = folder.path("data"), .vfs = disk.vfs()};
    const std::vector<OwnerKind> kinds{OwnerKind::session, OwnerKind::inbox, OwnerKind::room};
    const WallMillis wall = wall_now();
    {
        SqliteLedger ledger(options);
        StoredState().read(ledger);
        std::vector<Operation> operations;
        OwnerId owner = 0;
        Stamp stamp = stamp_at(wall - 100'000);
        for (const OwnerKind kind : kinds) {
            const bool is_room = kind == OwnerKind::room;
            operations.push_back(PutOwner{.owner = ++owner,
                                          .kind = kind,
                                          .user = is_room ? "room/r" : "ann",
                                          .client = is_room ? "0/1" : "phone",
                                          .expiry = 1'000'000});
            for (const WallMillis expires : {wall - 1, wall + 1'000'000, WallMillis{0}}) {
                PutMessage message = put(++stamp, {owner});
                message.expires = expires;
                operations.push_back(std::move(message));
            }
        }
        operations.push_back(PutMember{.topic = "room/r", .user = "bob", .since = 1});
        CHECK(commit(ledger, std::move(operations)) == Outcome::committed);
    }
    PumpedLedger ledger(options, disk);
    BrokerCluster brokers({}, 1, &ledger);
    ledger.end_start();
    CHECK(brokers.broker(0).waiting() == 6);
    CHECK(brokers.sum(&Counters::dropped_expired) == 3);
}
