#include "server/session/durable/journal.h"

#include <doctest/doctest.h>

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/idle_host.h"

using namespace pulsegate;

namespace {

/// A shard without a broker: units wait until the test has them committed or refused.
class Host final : public IdleHost {
public:
    void send(unsigned shard, ShardMessage message) override {
        if (const auto* part = std::get_if<SettledPart>(&message))
            parts.push_back({shard, part->receipt, part->refused});
        if (const auto* committed = std::get_if<MessageStored>(&message))
            stored.push_back(committed->stamp);
    }
    void later(OwnTurn turn) override {
        if (const auto* cancelled = std::get_if<DelayedCancelled>(&turn))
            answers.push_back({cancelled->receipt, cancelled->found, cancelled->refused});
    }
    OwnerId next_owner() override { return 7; }
    bool store_awaits_units() const override { return awaits_units; }
    void submit(std::vector<Operation> operations, bool urgent, std::uint32_t generation) override {
        units.push_back({std::move(operations), urgent, generation});
    }

    struct Unit {
        std::vector<Operation> operations;
        bool urgent;
        std::uint32_t generation;
    };
    struct Part {
        unsigned shard;
        ReceiptId receipt;
        bool refused;

        bool operator==(const Part&) const = default;
    };
    struct Answer {
        ReceiptId receipt;
        bool found;
        bool refused;

        bool operator==(const Answer&) const = default;
    };
    bool awaits_units = false;
    std::deque<Unit> units;
    std::vector<Part> parts;
    std::vector<Answer> answers;
    std::vector<Stamp> stored;
};

struct Journals {
    Host host;
    Receipts receipts{{0, 2}, host};
    BrokerSettings settings;
    Journal journal{settings, {0, 2}, host, receipts};

    /// A part of a receipt of shard 1.
    PartRef part(ReceiptId receipt) { return new OpenPart(receipts, 1, receipt); }

    void commit() {
        host.units.pop_front();
        UnitDone done{false, {}};
        journal.receive(done);
    }
    void refuse() {
        UnitDone done{true, std::move(host.units.front().operations)};
        host.units.pop_front();
        journal.receive(done);
    }
};

std::vector<OwnerId> owners(const Host::Unit& unit) {
    std::vector<OwnerId> found;
    for (const Operation& operation : unit.operations)
        found.push_back(std::get<EndOwner>(operation).owner);
    return found;
}

MessageRef message(Stamp stamp) {
    return std::make_shared<Message>(
        Message{.topic = "x", .payload = "hello", .properties = {}, .stamp = stamp});
}

}  // namespace

TEST_CASE("the operations of one turn are one unit, which is lazy if all of them are") {
    Journals all;
    all.journal.add_lazily(EndOwner{1});
    all.journal.add_lazily(EndOwner{2});
    all.journal.flush();
    REQUIRE(all.host.units.size() == 1);
    CHECK(owners(all.host.units[0]) == std::vector<OwnerId>{1, 2});
    CHECK_FALSE(all.host.units[0].urgent);

    all.journal.add_lazily(EndOwner{3});
    all.journal.add(EndOwner{4});
    all.journal.flush();
    all.journal.flush();  // there is nothing more
    REQUIRE(all.host.units.size() == 2);
    CHECK(owners(all.host.units[1]) == std::vector<OwnerId>{3, 4});
    CHECK(all.host.units[1].urgent);
}

TEST_CASE("a shard hands in a unit with each tick while the store awaits one, even an empty one") {
    Journals all;
    const auto tick = [&] {
        all.journal.tick();
        all.journal.flush();
        return all.host.units.size();
    };
    CHECK(tick() == 0);
    all.host.awaits_units = true;
    CHECK(tick() == 1);
    CHECK(all.host.units[0].operations.empty());
    CHECK(tick() == 1);  // it is not answered yet
    all.commit();
    CHECK(tick() == 1);
    all.commit();
    all.journal.add(EndOwner{1});
    CHECK(tick() == 1);
    CHECK(owners(all.host.units[0]) == std::vector<OwnerId>{1});
}

TEST_CASE("a message is stored once for all its receivers of a turn") {
    Journals all;
    const auto first = message(7);
    all.journal.put(first, {.owner = 1}, {}, 0);
    all.journal.put(first, {.owner = 2}, {}, 0);
    all.journal.put(message(8), {.owner = 1}, {}, 0);
    CHECK(all.journal.messages() == 2);
    all.journal.flush();
    REQUIRE(all.host.units[0].operations.size() == 2);
    const auto& put = std::get<PutMessage>(all.host.units[0].operations[0]);
    CHECK(put.stamp == 7);
    CHECK(put.receivers == std::vector<Receiver>{{.owner = 1}, {.owner = 2}});
    CHECK(all.journal.bytes() == 2 * (sizeof(Operation) + first->cost()) + 3 * sizeof(Receiver));
    all.commit();
    CHECK(all.journal.bytes() == 0);
}

TEST_CASE("each operation counts among what is not committed yet") {
    Journals all;
    const auto first = message(7);
    all.journal.add(PutRetained{.stamp = 7, .message = first});
    all.journal.add_lazily(PutRetained{.stamp = 8, .message = first});
    all.journal.add(PutWill{.owner = 1, .message = first});
    all.journal.add_lazily(DropRetained{9, "topic"});
    all.journal.add(PutOwner{.owner = 7, .user = "alice", .client = "phone"});
    all.journal.add(PutSubscription{.owner = 7, .filter = "room/#"});
    for (const Stamp stamp : {3u, 4u, 5u}) all.journal.done(7, stamp);  // one operation
    all.journal.flush();
    const std::size_t texts = 5 + 10 + 6;
    CHECK(all.journal.bytes() ==
          7 * sizeof(Operation) + 3 * first->cost() + texts + 3 * sizeof(Stamp));
    all.commit();
    CHECK(all.journal.bytes() == 0);
}

TEST_CASE("a part is settled when its unit is committed and nobody else refers to it") {
    Journals all;
    PartRef kept = all.part(5);
    all.journal.add(EndOwner{1}, all.part(3));
    all.journal.await(kept);
    all.journal.flush();
    CHECK(all.host.parts.empty());
    all.commit();
    CHECK(all.host.parts == std::vector<Host::Part>{{1, 3, false}});
    kept.reset();
    CHECK(all.host.parts == std::vector<Host::Part>{{1, 3, false}, {1, 5, false}});
}

TEST_CASE("cancellations are answered in their order when their unit is") {
    Journals all;
    for (const ReceiptId receipt : {7u, 8u, 9u})
        all.journal.cancel(CancelDelayed{.id = receipt},
                           {.receipt = receipt, .packet_id = 1, .qos = QoS::at_least_once});
    all.journal.flush();
    CHECK(all.journal.bytes() > 0);
    all.host.units.pop_front();
    UnitDone done{false, {}, {true, false, true}};
    all.journal.receive(done);
    CHECK(all.host.answers ==
          std::vector<Host::Answer>{{7, true, false}, {8, false, false}, {9, true, false}});
    CHECK(all.journal.bytes() == 0);
}

TEST_CASE("after a refusal, promised delayed messages and cancellations are kept") {
    Journals all;
    for (const bool promised : {false, true}) {
        all.journal.put(PutDelayed{.id = 5, .message = message(0), .is_promised = promised}, {});
        all.journal.cancel(CancelDelayed{.id = 6, .is_promised = promised},
                           {.receipt = 7, .packet_id = 1, .qos = QoS::exactly_once});
    }
    all.journal.flush();
    all.refuse();
    CHECK(all.host.answers == std::vector<Host::Answer>{{7, false, true}, {7, false, true}});
    all.journal.tick();
    REQUIRE(all.host.units.size() == 1);
    CHECK(all.host.units[0].operations.size() == 2);
    CHECK(std::get<PutDelayed>(all.host.units[0].operations[0]).is_promised);
    CHECK(std::get<CancelDelayed>(all.host.units[0].operations[1]).is_promised);
}

TEST_CASE("units after a refusal are new to the store, though nothing is handed in again") {
    Journals all;
    const auto put = [&] {
        all.journal.put(PutDelayed{.id = 5, .message = message(0)}, {});
        all.journal.flush();
        return all.host.units.back().generation;
    };
    const auto refused = put();
    CHECK(put() == refused);
    all.refuse();
    CHECK(put() == refused);  // the store refuses it, too: another one is under way
    all.refuse();
    all.refuse();
    CHECK(put() > refused);
}

TEST_CASE("refused operations are handed in again, in order, until they are committed") {
    Journals all;
    for (const OwnerId owner : {1u, 2u}) {
        all.journal.add(EndOwner{owner}, all.part(owner));
        all.journal.flush();
    }
    all.refuse();
    CHECK(all.journal.is_refused());
    CHECK(all.host.parts == std::vector<Host::Part>{{1, 1, true}});
    all.journal.add(EndOwner{3}, all.part(3));  // behind the second, which is not refused yet
    all.journal.flush();
    CHECK(all.host.parts.back() == Host::Part{1, 3, true});
    all.refuse();
    CHECK(all.host.units.empty());

    all.journal.tick();
    REQUIRE(all.host.units.size() == 1);
    CHECK(owners(all.host.units[0]) == std::vector<OwnerId>{1, 2, 3});
    all.journal.add(EndOwner{4});
    all.journal.flush();
    all.journal.tick();  // one attempt at a time
    CHECK(all.host.units.size() == 1);
    all.refuse();
    CHECK(all.journal.is_refused());

    all.journal.tick();
    CHECK(owners(all.host.units[0]) == std::vector<OwnerId>{1, 2, 3, 4});
    all.journal.add(EndOwner{5});
    all.journal.flush();
    all.commit();
    CHECK_FALSE(all.journal.is_refused());
    REQUIRE(all.host.units.size() == 1);
    CHECK(owners(all.host.units[0]) == std::vector<OwnerId>{5});
    all.journal.add(EndOwner{6}, all.part(6));
    all.journal.flush();
    all.commit();
    all.commit();
    CHECK(all.host.parts.back() == Host::Part{1, 6, false});
}

TEST_CASE("after a refusal, only the last state of a row is kept") {
    Journals all;
    all.journal.add(EndOwner{1});
    all.journal.flush();
    all.refuse();
    const std::size_t before = all.journal.refused_bytes();
    CHECK(before == sizeof(Operation));
    for (Stamp i = 1; i <= 2000; ++i) {
        all.journal.add_lazily(PutUser{.name = i % 2 == 0 ? "alice" : "bob", .version = i});
        all.journal.add_lazily(PutRetained{.stamp = 10 * i, .message = message(10 * i)});
        all.journal.add_lazily(DropRetained{10 * i - 1, "x"});  // late
        all.journal.add_lazily(i % 2 == 0
                                   ? Operation(PutSessionExpiry{.owner = 7, .ends = WallMillis(i)})
                                   : Operation(DropSessionExpiry{7}));
        all.journal.add_lazily(PutRoomPosition{.user = "alice", .position = i});
        all.journal.flush();
    }
    all.journal.add(PutOwner{.owner = 7});
    all.journal.add_lazily(DropRoomPosition{"alice"});
    all.journal.flush();
    CHECK(all.journal.refused_bytes() > 10'000 * sizeof(Operation));

    all.journal.tick();
    const std::size_t left = all.journal.refused_bytes();
    CHECK(left < 8 * (sizeof(Operation) + message(0)->cost()));
    REQUIRE(all.host.units.size() == 1);
    const auto& operations = all.host.units[0].operations;
    REQUIRE(operations.size() == 7);
    CHECK(std::get<EndOwner>(operations[0]).owner == 1);
    CHECK(std::get<PutUser>(operations[1]).version == 1999);
    CHECK(std::get<PutUser>(operations[2]).version == 2000);
    CHECK(std::get<PutRetained>(operations[3]).stamp == 20'000);
    CHECK(std::get<PutSessionExpiry>(operations[4]).ends == 2000);
    CHECK(std::get<PutOwner>(operations[5]).owner == 7);
    CHECK(std::get<DropRoomPosition>(operations[6]).user == "alice");

    all.refuse();
    CHECK(all.journal.refused_bytes() == left);
    all.journal.tick();
    all.commit();
    CHECK(all.journal.refused_bytes() == 0);
    CHECK(all.journal.bytes() == 0);
}

TEST_CASE("operations that follow from a refusal in the same turn are not lost") {
    Journals all;
    all.journal.add(EndOwner{1});
    all.journal.flush();
    all.journal.add(EndOwner{2});
    const ReceiptId receipt = all.receipts.open();
    all.receipts.then(receipt, [&](const PartRef& part, const Collected&) {
        all.journal.add(EndOwner{3}, part);
    });
    all.journal.await(new OpenPart(all.receipts, 0, receipt));
    all.refuse();
    all.journal.flush();  // behind what was refused
    all.journal.flush();
    all.journal.tick();
    REQUIRE(all.host.units.size() == 1);
    CHECK(owners(all.host.units[0]) == std::vector<OwnerId>{1, 2, 3});
}

TEST_CASE("after a unit of which something was left out, the shard goes on") {
    Journals all;
    all.journal.put(message(7), Collected{{{.owner = 1}}, {1}}, all.part(3), 0);
    all.journal.cancel(CancelDelayed{.id = 6, .is_promised = true},
                       {.receipt = 7, .packet_id = 1, .qos = QoS::exactly_once});
    all.journal.flush();
    all.host.units.pop_front();
    UnitDone done{.refused = false, .operations = {}, .cancelled = {true}, .incomplete = true};
    all.journal.receive(done);
    // It may be what was left out, so nobody is promised it.
    CHECK(all.host.parts == std::vector<Host::Part>{{1, 3, true}});
    CHECK(all.host.answers == std::vector<Host::Answer>{{7, true, false}});
    CHECK(all.host.stored == std::vector<Stamp>{7});
    CHECK_FALSE(all.journal.is_refused());
    all.journal.tick();
    CHECK(all.host.units.empty());
}

TEST_CASE("a time on one clock is the same on the other") {
    CHECK(as_wall_time(0, 5000) == 0);
    CHECK(as_monotonic_time(0, 5000) == 0);
    const auto wall = as_wall_time(65'000, 5000);
    CHECK(wall >= wall_now() + 59'000);
    CHECK(std::abs(as_monotonic_time(wall, 5000) - 65'000) < 1000);
    CHECK(as_monotonic_time(1, 5000) == 1);  // long ago, not never
}

TEST_CASE(
    "a client that waits for a new owner is told when it is stored, even after many refusals") {
    Journals all;
    REQUIRE(all.journal.next_owner() == 7);
    all.journal.add(PutOwner{.owner = 7});
    CHECK(all.journal.is_new(7));
    CHECK_FALSE(all.journal.is_new(6));
    CHECK_FALSE(all.journal.is_new(8));  // it has been stored since before the restart
    all.journal.await_retries(all.part(1));
    all.journal.flush();
    all.refuse();
    all.journal.await_retries(all.part(2));
    all.journal.flush();
    CHECK(all.host.parts.empty());
    all.journal.tick();
    all.refuse();
    CHECK(all.host.parts.empty());
    CHECK(all.journal.is_new(7));
    all.journal.tick();
    all.commit();
    CHECK(all.host.parts == std::vector<Host::Part>{{1, 1, false}, {1, 2, false}});
    CHECK_FALSE(all.journal.is_new(7));

    all.journal.await_retries(all.part(3));  // with nothing that could be refused
    all.journal.flush();
    all.refuse();
    CHECK(all.host.parts.size() == 2);
    all.journal.tick();
    CHECK(all.host.parts.size() == 3);
}

TEST_CASE("a retry that leaves out an operation refuses the clients that wait for it") {
    Journals all;
    all.journal.add(EndOwner{1});
    all.journal.await_retries(all.part(1));
    all.journal.flush();
    all.refuse();
    all.journal.tick();
    CHECK(all.host.parts.empty());
    all.host.units.pop_front();
    UnitDone done{.refused = false, .operations = {}, .incomplete = true};
    all.journal.receive(done);
    CHECK(all.host.parts == std::vector<Host::Part>{{1, 1, true}});
}

TEST_CASE("a client with nothing to store during a retry waits only for this retry") {
    Journals all;
    all.journal.add(EndOwner{1});
    all.journal.flush();
    all.refuse();
    all.journal.tick();
    all.journal.await_retries(all.part(2));
    all.journal.flush();
    CHECK(all.host.parts.empty());
    all.commit();
    CHECK(all.host.parts == std::vector<Host::Part>{{1, 2, false}});
}
