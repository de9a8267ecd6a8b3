#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/store/sqlite_ledger.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/ledger_model.h"
#include "tests/support/quiet_log.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

using namespace pulsegate;

namespace {

using Fault = FaultyDisk::Fault;
using namespace std::chrono_literals;

constexpr std::pair<Fault, const char*> faults[] = {
    {Fault::kill, "kill"},   {Fault::torn_write, "torn write"}, {Fault::io_error, "EIO"},
    {Fault::full, "ENOSPC"}, {Fault::sync_error, "fsync"},      {Fault::power_cut, "power cut"},
};

/// Units, and what must be stored after each of them.
struct Script {
    std::vector<std::vector<Operation>> units;
    std::vector<std::size_t> groups;     ///< how many units are submitted at a time
    std::vector<std::string> states;     ///< one more than there are units
    std::vector<std::size_t> cancelled;  ///< delayed messages, by each unit
    std::vector<Stamp> highest;          ///< stamp so far, as `states`
};

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
    Script take() {
        commit();
        return std::move(script_);
    }

private:
    Script script_;
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

/// Every operation, in the order in which sessions would use them.
Script written_script() {
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
    to.add({PutAbsence{.owner = 1, .ends = 1234567}});
    to.add({put(12, {{.owner = 1, .share = share_of("$share/g/a")}, {.owner = 3}})});
    to.commit();
    to.add({PutIncoming{.owner = 1, .packet_id = 7}, put(13, {{.owner = 2}})});
    to.add({DropIncoming{.owner = 1, .packet_id = 7}});
    to.commit();
    to.add({PutExchange{.owner = 2, .packet_id = 1, .stamp = 10}});
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
    to.add({DropWill{.owner = 1}, DropAbsence{.owner = 1}});
    to.add({PutSubscription{.owner = 1, .filter = "a/#", .options = 2},
            OweRetained{.owner = 1, .filter = "a/#", .owed = true}});
    to.add({PutSubscription{.owner = 1, .filter = "a/#"}});
    to.commit();
    to.add({OweRetained{.owner = 1, .filter = "a/#"}, OweRetained{.owner = 1, .filter = "b"}});
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

/// What sessions might do, drawn by chance.
class RandomScript {
public:
    explicit RandomScript(std::uint32_t seed) : random_(seed) {}

    Script write(std::size_t units) {
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
            case 2: return PutAbsence{.owner = owner(), .ends = below(1000), .place = near()};
            case 3: return DropAbsence{.owner = owner()};
            case 4: return PutIncoming{.owner = owner(), .packet_id = packet()};
            case 5: return DropIncoming{.owner = owner(), .packet_id = packet()};
            case 6: return PutExchange{.owner = owner(), .packet_id = packet(), .stamp = stamp_};
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
            case 28: return PutAway{.user = name(), .place = near()};
            case 29: return DropAway{.user = name()};
            case 31: return RetireOwner{owner()};
            case 30: return OweRetained{owner(), name(), below(2) == 0};
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

/// Submits a script, and notes what it is told.
class Player {
public:
    Player(const Script& script, const FaultyDisk& disk) : script_(script), disk_(disk) {}

    void play(SqliteLedger& ledger) {
        for (const std::size_t group : script_.groups) {
            const std::size_t end = submitted_ + group;
            while (submitted_ < end) submit(ledger, end);
            if (!await(end)) return;
        }
    }

    std::size_t submitted() const { return submitted_; }
    std::size_t told() {
        const std::lock_guard lock(mutex_);
        return told_;
    }
    /// Empty: everything was told in order and as it should be.
    std::string wrong() {
        const std::lock_guard lock(mutex_);
        return wrong_;
    }

private:
    void submit(SqliteLedger& ledger, std::size_t end) {
        const std::size_t number = submitted_++;
        Unit unit{script_.units[number],
                  [this, number](Outcome outcome, const std::vector<Operation>& operations) {
                      tell(number, outcome, operations);
                  }};
        if (submitted_ < end)
            ledger.submit_lazily(std::move(unit));
        else
            ledger.submit(std::move(unit));
    }

    void tell(std::size_t number, Outcome outcome, const std::vector<Operation>& operations) {
        const std::lock_guard lock(mutex_);
        changed_.notify_one();
        if (outcome == Outcome::refused) {
            if (!disk_.dead()) wrong_ = fmt::format("{} was refused", number);
            return;
        }
        if (number != told_) wrong_ = fmt::format("{} was told after {} others", number, told_);
        const auto cancelled = std::ranges::count_if(operations, [](const Operation& operation) {
            const auto* cancel = std::get_if<CancelDelayed>(&operation);
            return cancel && cancel->found;
        });
        if (static_cast<std::size_t>(cancelled) != script_.cancelled[number])
            wrong_ = fmt::format("{} has cancelled {}", number, cancelled);
        told_ = number + 1;
    }

    bool await(std::size_t end) {
        std::unique_lock lock(mutex_);
        while (told_ < end && wrong_.empty() && !disk_.dead()) changed_.wait_for(lock, 1ms);
        return told_ == end;
    }

    const Script& script_;
    const FaultyDisk& disk_;
    std::size_t submitted_ = 0;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t told_ = 0;
    std::string wrong_;
};

SqliteLedger::Options options(const TemporaryFolder& folder, const FaultyDisk& disk) {
    return {.folder = folder.path("data"),
            .patience = 5s,  // for a disk that is dead
            .first_pause = 0ms,
            .wal_bytes = 24 * 4096,  // so that there are checkpoints, too
            .vfs = disk.vfs()};
}

/// One life of the store: a fault in it, and what the next starts find.
class Life {
public:
    Life(const TemporaryFolder& folder, const Script& script, std::uint32_t seed)
        : folder_(folder), script_(script), disk_(seed), random_(seed) {}

    /// How many steps there are without a fault.
    std::uint64_t length() {
        run();
        return disk_.steps();
    }

    /// Empty, or what is wrong.
    std::string fail(Fault fault, std::uint64_t step) {
        disk_.fail_at(step, fault, 1 + static_cast<unsigned>(random_() % 5));
        const Told told = run();
        if (!told.wrong.empty()) return told.wrong;
        disk_.restart();
        if (coin()) fail_at_start();
        return judge(told);
    }

private:
    struct Told {
        std::size_t submitted;
        std::size_t told;
        std::string wrong;
    };
    struct Found {
        std::string text;
        Ledger::Start start;
    };

    bool coin() { return random_() % 2 == 0; }

    Told run() {
        Player player(script_, disk_);
        try {
            SqliteLedger ledger(options(folder_, disk_));
            StoredState nothing;
            nothing.read(ledger);
            player.play(ledger);
            if (coin()) disk_.cut_power();
        } catch (const std::runtime_error&) {  // it did not even start
        }
        return {player.submitted(), player.told(), player.wrong()};
    }

    void fail_at_start() {
        const auto& [fault, name] = faults[random_() % std::size(faults)];
        disk_.fail_at(disk_.steps() + 1 + random_() % 12, fault);
        try {
            start();
        } catch (const std::runtime_error&) {
        }
        disk_.restart();
    }

    /// Throws if the disk fails. The power fails right after it, so that it must have synced all
    /// that it shows.
    Found start() {
        SqliteLedger ledger(options(folder_, disk_));
        StoredState state;
        Found found;
        found.start = state.read(ledger);
        found.text = state.text();
        disk_.cut_power();
        return found;
    }

    std::string judge(const Told& told) {
        const Found first = start();
        disk_.restart();
        const auto from = script_.states.begin() + static_cast<std::ptrdiff_t>(told.told);
        const auto end = script_.states.begin() + static_cast<std::ptrdiff_t>(told.submitted) + 1;
        if (std::find(from, end, first.text) == end)
            return fmt::format("after {} told units of {} there is\n{}\ninstead of\n{}", told.told,
                               told.submitted, first.text, *from);
        if (first.start.floor < script_.highest[told.told]) return "the floor is too low";
        const Found second = start();
        if (second.text != first.text) return "the second start finds something else";
        if (second.start.floor <= first.start.floor) return "the floor does not grow";
        return "";
    }

    const TemporaryFolder& folder_;
    const Script& script_;
    FaultyDisk disk_;
    std::mt19937 random_;
};

constexpr std::uint64_t written_stride = sanitized ? 10 : 3;
constexpr std::uint64_t random_stride = sanitized ? 61 : 13;

bool all_steps() { return std::getenv("PULSEGATE_LEDGER_CRASHES") != nullptr; }

/// Lives with a fault at every `stride`th step, another one for each kind of fault.
void fail_everywhere(const Script& script, std::uint32_t seed, std::uint64_t stride) {
    const TemporaryFolder folder;  // for the lock only
    const std::uint64_t length = Life(folder, script, seed).length();
    REQUIRE(length > 100);
    std::uint32_t life = seed * 1'000'003;
    for (std::size_t kind = 0; kind < std::size(faults); ++kind) {
        const auto& [fault, name] = faults[kind];
        for (std::uint64_t step = 1 + (seed + kind) % stride; step <= length; step += stride) {
            const std::string wrong = Life(folder, script, ++life).fail(fault, step);
            INFO(std::string(name) << " at step " << step << " of " << length << ", seed " << seed);
            REQUIRE(wrong == "");
        }
    }
}

}  // namespace

TEST_CASE("whatever fails and whenever, what was told committed is stored, and nothing by halves") {
    const QuietLog quiet;
    fail_everywhere(written_script(), 1, all_steps() ? 1 : written_stride);
}

TEST_CASE("random units survive random faults") {
    const QuietLog quiet;
    const std::uint32_t scripts = all_steps() ? 20 : 4;
    for (std::uint32_t seed = 1; seed <= scripts; ++seed)
        fail_everywhere(RandomScript(seed).write(120), seed, all_steps() ? 1 : random_stride);
}
