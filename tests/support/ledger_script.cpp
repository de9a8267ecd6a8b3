#include "tests/support/ledger_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <variant>

#include "tests/support/ledger_model.h"

namespace pulsegate {

namespace {

class Writer {
public:
    Writer() {
        script_.states.push_back(model_.text());
        script_.highest.push_back(0);
    }

    void add(std::vector<Operation> operations) {
        Stamp highest = script_.highest.back();
        for (const Operation& operation : operations)
            if (const auto* put = std::get_if<PutMessage>(&operation))
                highest = std::max(highest, put->stamp);
        script_.cancelled.push_back(model_.apply({.operations = operations}));
        script_.units.push_back(std::move(operations));
        script_.states.push_back(model_.text());
        script_.highest.push_back(highest);
        ++open_;
    }

    /// What was added since the last call is one commit.
    void commit() {
        if (open_ > 0) script_.groups.push_back(std::exchange(open_, 0));
    }

    const StoredState& model() const { return model_; }
    LedgerScript take() {
        commit();
        return std::move(script_);
    }

private:
    LedgerScript script_;
    StoredState model_;
    std::size_t open_ = 0;
};

std::shared_ptr<const std::string> share_of(std::string filter) {
    return std::make_shared<const std::string>(std::move(filter));
}

PutMessage put(Stamp stamp, std::vector<Receiver> receivers, std::size_t size = 10) {
    return {.stamp = stamp,
            .expires = static_cast<WallMillis>(stamp * 2),
            .flags = static_cast<std::uint32_t>(stamp % 7),
            .sender = 0xFEDC0000 + static_cast<std::uint32_t>(stamp),
            .message = message(fmt::format("topic/{}", stamp), std::string(size, 'x'), "p"),
            .receivers = std::move(receivers)};
}

/// What sessions might do, drawn by chance.
class RandomScript {
public:
    explicit RandomScript(std::uint32_t seed) : random_(seed) {}

    LedgerScript write(std::size_t units) {
        for (std::size_t i = 0; i < units; ++i) {
            to_.add(unit());
            if (below(3) == 0) to_.commit();
        }
        return to_.take();
    }

private:
    unsigned below(unsigned end) { return static_cast<unsigned>(random_() % end); }
    std::uint16_t packet() { return static_cast<std::uint16_t>(1 + below(5)); }
    OwnerId owner() { return std::max<OwnerId>(1, last_owner_ - std::min(last_owner_, below(6))); }

    std::vector<Operation> unit() {
        std::vector<Operation> operations;
        if (last_owner_ == 0 || below(12) == 0) operations.push_back(new_owner());
        for (unsigned count = 1 + below(3); count > 0; --count) {
            operations.push_back(operation());
            const auto* const put = std::get_if<PutMessage>(&operations.back());
            if (put && below(3) == 0) add_receiver(operations, put->stamp);
        }
        return operations;
    }

    /// Behind the message, or before it: another shard stores that. A stamp of 1 may be used again,
    /// when it is not certain that the message before is deleted.
    void add_receiver(std::vector<Operation>& operations, Stamp stamp) {
        const bool is_early = stamp > 1 && below(2) == 0;
        operations.insert(
            operations.end() - (is_early ? 1 : 0),
            PutReceiver{
                .stamp = stamp,
                .receiver = {.owner = owner(), .retain = true, .share = share_of("$share/g/a")}});
    }

    Operation new_owner() {
        ++last_owner_;
        return PutOwner{.owner = last_owner_,
                        .user = fmt::format("user {}", last_owner_),
                        .client = "c",
                        .expiry = below(100)};
    }

    Operation operation() {
        switch (below(38)) {
            case 0: return PutSubscription{.owner = owner(), .filter = name(), .owed = true};
            case 1: return DropSubscription{.owner = owner(), .filter = name()};
            case 2:
                return PutSessionExpiry{.owner = owner(), .ends = below(1000), .position = near()};
            case 3: return DropSessionExpiry{.owner = owner()};
            case 4: return PutIncoming{.owner = owner(), .packet_id = packet()};
            case 5: return DropIncoming{.owner = owner(), .packet_id = packet()};
            case 6:
                return PutExchange{.owner = owner(),
                                   .packet_id = packet(),
                                   .stamp = stamp_,
                                   .qos = below(2) == 0 ? QoS::at_least_once : QoS::exactly_once};
            case 7: return ReleaseExchange{.owner = owner(), .packet_id = packet()};
            case 8: return DropExchange{.owner = owner(), .packet_id = packet()};
            case 9: return PutWill{.owner = owner(), .message = message(name(), "w")};
            case 10: return PutRetained{.stamp = near(), .message = message(name(), name())};
            case 11: return DropRetained{.stamp = near(), .topic = name()};
            case 12:
                return PutDelayed{.id = ++last_delayed_,
                                  .user = "u",
                                  .name = name(),
                                  .message = message("d", name())};
            case 13: return cancel();
            case 14: return PutUser{.name = name(), .version = stamp_};
            case 18:
            case 19:
                return PutBan{.user = name(),
                              .address = name(),
                              .ends = static_cast<WallMillis>(below(3)),
                              .reason = name()};
            case 20: return DropBan{.user = name(), .address = name()};
            case 21: return DropEndedBans{.by = static_cast<WallMillis>(below(3))};
            case 22:
                return PutRevocation{.user = name(), .before = static_cast<std::int64_t>(near())};
            case 23: return PutMember{.topic = name(), .user = name(), .since = 7};
            case 24: return DropMember{.topic = name(), .user = name()};
            case 15: return EndOwner{.owner = owner()};
            case 16:
            case 17: return done();
            case 25: return PutEvent{.kind = static_cast<std::uint8_t>(below(4)), .body = name()};
            case 26: return PutDeadLetter{{.event = {1 + below(5), 0, name()}, .why = name()}};
            case 27: return DropDeadLetters{.number = 1 + below(5)};
            case 28: return PutRoomPosition{.user = name(), .position = near()};
            case 29: return DropRoomPosition{.user = name()};
            case 31: return RetireOwner{owner()};
            case 30: return MarkRetainedOwed{owner(), name(), below(2) == 0};
            default: return put_message();
        }
    }

    std::string name() { return std::string(1, static_cast<char>('a' + below(5))); }
    Stamp near() { return stamp_ - std::min<Stamp>(stamp_, below(10)); }

    Operation cancel() {
        const auto id = last_delayed_ - std::min<std::uint64_t>(last_delayed_, below(5));
        if (below(3) == 0) return DropDelayed{.id = id};
        if (below(2) == 0) return CancelDelayed{.user = "u", .name = name()};
        return CancelDelayed{.id = id + 1};
    }

    Operation done() {
        Done done{.owner = owner()};
        if (below(2) == 0) done.upto = near();
        for (unsigned count = below(3); count > 0; --count) done.beyond.push_back(near());
        std::erase_if(done.beyond, [&](Stamp stamp) { return stamp == 0; });
        return done;
    }

    /// Some stamps are left out, and used later.
    Operation put_message() {
        Stamp stamp = stamp_ += 1 + below(3);
        if (below(5) == 0)
            while (used_.contains(stamp) && stamp > 1) --stamp;
        used_.insert(stamp);
        std::vector<Receiver> receivers;
        for (OwnerId id = owner(); id <= last_owner_; id += 1 + below(3))
            receivers.push_back({.owner = id, .identifiers = {below(4)}});
        return put(stamp, std::move(receivers), below(10) == 0 ? 6000 : below(200));
    }

    std::mt19937 random_;
    Writer to_;
    OwnerId last_owner_ = 0;
    Stamp stamp_ = 0;
    std::uint64_t last_delayed_ = 0;
    std::set<Stamp> used_{0};
};

}  // namespace

LedgerScript written_script() {
    Writer to;
    to.add({PutOwner{.owner = 1, .user = "ann", .client = "phone", .expiry = 60, .protocol = 5},
            PutSubscription{.owner = 1, .filter = "a/#", .options = 1, .identifier = 3}});
    to.add({PutOwner{.owner = 2, .kind = OwnerKind::inbox, .user = "bob"}});
    to.add({PutOwner{.owner = 3, .kind = OwnerKind::retired, .client = "g/a/+"}});
    to.commit();
    to.add(
        {put(10, {{.owner = 1}, {.owner = 2, .qos = QoS::exactly_once, .identifiers = {1, 300}}})});
    to.commit();
    to.add({put(11, {{.owner = 3, .retain = true}}, 9000)});
    to.add({PutSessionExpiry{.owner = 1, .ends = 1234567}});
    to.add({put(12, {{.owner = 1, .share = share_of("$share/g/a")}, {.owner = 3}})});
    to.commit();
    to.add({PutIncoming{.owner = 1, .packet_id = 7}, put(13, {{.owner = 2}})});
    to.add({DropIncoming{.owner = 1, .packet_id = 7}});
    to.commit();
    to.add({PutExchange{.owner = 2, .packet_id = 1, .stamp = 10}});
    to.add({PutExchange{.owner = 1, .packet_id = 5, .stamp = 10, .qos = QoS::at_least_once}});
    to.add({PutExchange{.owner = 1, .packet_id = 0, .stamp = 99, .qos = QoS::at_least_once}});
    to.commit();
    to.add({ReleaseExchange{.owner = 2, .packet_id = 1}, Done{.owner = 2, .upto = 10}});
    to.commit();
    to.add({Done{.owner = 1, .upto = 10}});
    to.add({DropExchange{.owner = 2, .packet_id = 1}});
    to.add({PutUser{.name = "ann", .version = 5, .since = 4, .last_seen = 3, .cause = 2}});
    to.commit();
    to.add({put(20, {{.owner = 1}, {.owner = 2}})});
    to.add({Done{.owner = 1, .upto = 11, .beyond = {20}}});
    to.commit();
    to.add({put(15, {{.owner = 1}})});  // later than a message that is done already
    to.commit();
    to.add({Done{.owner = 1, .upto = 20}});
    to.add({put(17, {{.owner = 1}})});
    to.commit();
    to.add({put(17, {{.owner = 2}})});  // more receivers
    to.commit();
    to.add({PutWill{.owner = 1, .delay = 5, .message_expiry = 9, .message = message("w", "will")}});
    to.add({PutRetained{.stamp = 30,
                        .publisher = 77,
                        .sender = ~std::uint64_t{7},
                        .message = message("r", "first")}});
    to.commit();
    to.add({PutRetained{.stamp = 29, .message = message("r", "came late")},
            DropRetained{.stamp = 31, .topic = "s"}});
    to.add({PutRetained{.stamp = 30, .message = message("s", "came after the drop")}});
    to.commit();
    to.add({PutDelayed{.id = 100, .user = "ann", .name = "n", .message = message("d", "one")}});
    to.add({PutDelayed{.id = 101, .user = "ann", .name = "n", .message = message("d", "two")}});
    to.commit();
    to.add({CancelDelayed{.id = 100}, put(40, {{.owner = 2}})});  // it was replaced
    to.add({DropDelayed{.id = 101}, put(41, {{.owner = 2}})});
    to.commit();
    to.add({PutDelayed{.id = 102, .message_expiry = 7, .user = "ann", .message = message("d", "")},
            PutDelayed{.id = 103, .user = "ann", .name = "n", .message = message("d", "three")}});
    to.add({CancelDelayed{.id = 102, .user = "bob"}, CancelDelayed{.user = "ann", .name = "n"},
            CancelDelayed{.user = "ann", .name = "n"}});
    to.add({DropWill{.owner = 1}, DropSessionExpiry{.owner = 1}});
    to.add({PutSubscription{.owner = 1, .filter = "a/#", .options = 2},
            MarkRetainedOwed{.owner = 1, .filter = "a/#", .owed = true}});
    to.add({PutSubscription{.owner = 1, .filter = "a/#"}});
    to.commit();
    to.add({MarkRetainedOwed{.owner = 1, .filter = "a/#"},
            MarkRetainedOwed{.owner = 1, .filter = "b"}});
    to.add({DropSubscription{.owner = 1, .filter = "a/#"}});
    to.commit();
    to.add({PutSubscription{.owner = 1, .filter = "a/#"}, RetireOwner{.owner = 1}});
    to.add({put(49, {{.owner = 1, .share = share_of("$share/g/a")}}), RetireOwner{.owner = 7}});
    to.commit();
    to.add({Done{.owner = 1, .beyond = {49}}, EndOwner{.owner = 1}});
    to.add({EndOwner{.owner = 2}});
    to.add({PutOwner{.owner = 4, .kind = OwnerKind::inbox, .user = "bob"}});
    to.commit();
    to.add({put(50, {{.owner = 2}, {.owner = 4}})});
    to.add({PutSubscription{.owner = 2, .filter = "nobody's"}});
    to.add({DropUser{.name = "ann"}});
    to.commit();
    to.add({Done{.owner = 4, .upto = 50}, EndOwner{.owner = 3}});
    to.add({PutEvent{.kind = 0, .body = "{}"}, PutUser{.name = "bob", .version = 9}});
    to.add({PutEvent{.kind = 3, .body = "{\"to\":\"bob\"}"}, EventDelivered{1}});
    to.commit();
    to.add({PutDeadLetter{{.event = {2, 3, "{}"}, .failed = 5, .why = "400"}}, EventDelivered{2}});
    to.add({ReplayDeadLetters{}, PutDeadLetter{{.event = {1, 0, "{}"}, .why = "422"}}});
    to.commit();
    to.add({DropDeadLetters{.number = 2}, PutEvent{.kind = 1, .body = "{}"}});
    to.commit();
    return to.take();
}

LedgerScript random_script(std::uint32_t seed, std::size_t units) {
    return RandomScript(seed).write(units);
}

}  // namespace pulsegate
