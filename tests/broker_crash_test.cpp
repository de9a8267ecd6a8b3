// Clients, brokers, a real ledger, and a disk that fails at every step: what the gateway has
// acknowledged must hold after the next start. ledger_crash_test tries the ledger alone.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/crash_play.h"
#include "tests/support/quiet_log.h"
#include "tests/support/sanitized.h"
#include "tests/support/session_model.h"
#include "tests/support/temporary_folder.h"

using namespace pulsegate;

namespace {

using Play = CrashPlay;
using Fault = FaultyDisk::Fault;

constexpr std::pair<Fault, const char*> faults_of_disks[] = {
    {Fault::kill, "kill"},   {Fault::torn_write, "torn write"}, {Fault::io_error, "EIO"},
    {Fault::full, "ENOSPC"}, {Fault::sync_error, "fsync"},      {Fault::power_cut, "power cut"},
};

constexpr std::uint64_t script_stride = sanitized ? 101 : 19;
constexpr std::size_t stop_stride = sanitized ? 5 : 1;
constexpr std::uint64_t chance_stride = sanitized ? 67 : 41;
constexpr std::uint32_t sample_of_seeds = sanitized ? 3 : 8;

bool all_crash_points() { return std::getenv("PULSEGATE_BROKER_CRASHES") != nullptr; }

/// What clients do, and in the next line what happens before they do more.
std::vector<Play::Step> script_of_clients() {
    constexpr auto q1 = QoS::at_least_once;
    constexpr auto q2 = QoS::exactly_once;
    const Play::Step settle = [](Play& play) { play.settle(); };
    const Play::Step commit = [](Play& play) { play.deliver_one(), play.commit(); };
    return {
        [](Play& play) { play.arrive(); },
        settle,
        [](Play& play) { play.disconnect(Play::bob_phone); },
        [](Play& play) { play.publish(Play::cat, "t/0", q1), play.publish(Play::cat, "t/2", q2); },
        commit,
        [](Play& play) { play.publish(Play::cat, "t/0", q2), play.publish(Play::cat, "t/1", q1); },
        settle,
        // To users that were never here.
        [](Play& play) { play.publish(Play::ann_desk, "inbox/dan", q2); },
        [](Play& play) { play.publish(Play::ann_desk, "inbox/dan", q1); },
        [](Play& play) { play.publish(Play::ann_phone, "inbox/eve", q1); },
        settle,
        // To a room. Some of its members are away or were never here.
        [](Play& play) { play.publish(Play::cat, "room/r", q2), play.lose(Play::ann_desk); },
        [](Play& play) { play.publish(Play::cat, "room/r", q1), play.lose(Play::bob_desk); },
        [](Play& play) { play.publish(Play::ann_phone, "room/r", q2); },
        commit,
        [](Play& play) { play.connect(Play::ann_desk), play.connect(Play::bob_desk); },
        [](Play& play) { play.publish(Play::cat, "room/r", q2); },
        settle,
        // Receivers that are slow, or go away without an answer.
        [](Play& play) { play.become_slow(Play::ann_phone), play.become_slow(Play::ann_desk); },
        [](Play& play) { play.publish(Play::cat, "t/0", q2), play.publish(Play::cat, "t/0", q1); },
        settle,
        [](Play& play) { play.pass(150); },
        settle,
        [](Play& play) { play.lose(Play::ann_phone), play.connect(Play::ann_phone); },
        commit,
        [](Play& play) { play.acknowledge(Play::ann_phone), play.acknowledge(Play::ann_desk); },
        [](Play& play) { play.lose(Play::ann_phone), play.connect(Play::ann_phone); },
        settle,
        [](Play& play) { play.acknowledge(Play::ann_phone); },
        // One identifier for one message after the other.
        [](Play& play) { play.publish(Play::worker, "t/2", q2); },
        settle,
        [](Play& play) { play.publish(Play::worker, "t/2", q2); },
        settle,
        [](Play& play) { play.retain(Play::cat, q1), play.retain(Play::cat, q2); },
        [](Play& play) { play.retain(Play::ann_desk, q1); },
        settle,
        [](Play& play) { play.retain(Play::ann_desk, q1, true); },
        // Later, and not at all.
        [](Play& play) { play.delay(Play::cat, "t/0", q2, 1); },
        [](Play& play) { play.delay(Play::ann_phone, "t/2", q1, 2); },
        settle,
        [](Play& play) { play.delay(Play::worker, "t/0", q2, 2); },
        settle,
        [](Play& play) { play.cancel(Play::worker, q1); },
        settle,
        [](Play& play) { play.pass(1100); },
        settle,
        [](Play& play) { play.pass(1200); },
        commit,
        // A group, and wills.
        [](Play& play) { play.disconnect(Play::worker), play.publish(Play::cat, "s/0", q2); },
        [](Play& play) { play.publish(Play::ann_desk, "s/0", q1); },
        settle,
        [](Play& play) { play.connect(Play::worker, false, true); },
        [](Play& play) { play.connect(Play::helper, false, true); },
        settle,
        [](Play& play) { play.lose(Play::helper), play.publish(Play::cat, "s/0", q2); },
        commit,
        [](Play& play) { play.lose(Play::worker), play.connect(Play::worker); },
        settle,
        // Subscriptions and sessions end, and others begin.
        [](Play& play) { play.unsubscribe(Play::cat, "t/1"); },
        settle,
        [](Play& play) { play.publish(Play::ann_desk, "t/1", q2); },
        [](Play& play) { play.subscribe(Play::cat, "t/1", q2); },
        settle,
        [](Play& play) { play.connect(Play::ann_phone, true); },
        [](Play& play) { play.publish(Play::cat, "t/0", q1), play.publish(Play::cat, "t/0", q2); },
        [](Play& play) { play.subscribe(Play::ann_phone, "t/0", q2); },
        settle,
        [](Play& play) { play.connect(Play::ann_desk, true), play.publish(Play::cat, "t/0", q2); },
        [](Play& play) { play.lose(Play::ann_desk), play.connect(Play::ann_desk); },
        settle,
        [](Play& play) { play.connect(Play::dan), play.connect(Play::eve); },
        [](Play& play) { play.publish(Play::cat, "room/r", q2), play.lose(Play::dan); },
        [](Play& play) { play.publish(Play::cat, "room/r", q1), play.connect(Play::dan); },
        commit,
        [](Play& play) { play.become_slow(Play::bob_phone), play.connect(Play::bob_phone); },
        settle,
        [](Play& play) { play.lose(Play::eve), play.publish(Play::cat, "inbox/eve", q2); },
        [](Play& play) { play.publish(Play::cat, "inbox/bob", q2); },
        settle,
        [](Play& play) { play.acknowledge(Play::bob_phone), play.connect(Play::eve); },
        commit,
    };
}

void make_empty_store(const TemporaryFolder& folder, const FaultyDisk& disk) {
    SqliteLedger ledger({.folder = folder.path("data"), .vfs = disk.vfs()});
    Ledger::Visitor nobody;
    ledger.load(nobody);
}

/// A life without a fault. Returns how many steps the disk has.
std::uint64_t live_long(const Play::Scene& scene, const TemporaryFolder& folder,
                        const FaultyDisk& beginning) {
    Play play(scene, folder.path("data"), beginning);
    try {
        play.run();
    } catch (const Broken& rule) {
        const std::string where = fmt::format("seed {}: {}\n", scene.seed, rule.what());
        FAIL(where << play.journal());
    }
    REQUIRE(play.disk_steps() > 100);
    return play.disk_steps();
}

/// Tells which life goes wrong, and what has happened in it.
void live(const Play::Scene& scene, const TemporaryFolder& folder, const FaultyDisk& beginning,
          const std::pair<Fault, const char*>& fault, std::uint64_t step, std::uint32_t life) {
    Play play(scene, folder.path("data"), beginning);
    play.fail_at(step, fault.first, life);
    try {
        play.run();
    } catch (const Broken& rule) {
        const std::string where =
            fmt::format("{} at step {}, seed {}, {} shards: {}\n", fault.second, step, scene.seed,
                        scene.shards, rule.what());
        FAIL(where << play.journal());
    }
}

/// Lives with a fault at every `stride`th step, another one for each kind of fault. Returns how
/// many there were.
std::uint64_t crash_everywhere(const Play::Scene& scene, std::uint64_t stride) {
    const TemporaryFolder folder;  // for the lock only
    const FaultyDisk beginning;
    make_empty_store(folder, beginning);
    const std::uint64_t length = live_long(scene, folder, beginning);
    std::uint32_t life = scene.seed * 1'000'003;
    std::uint64_t lives = 0;
    for (std::size_t kind = 0; kind < std::size(faults_of_disks); ++kind)
        for (std::uint64_t step = 1 + (scene.seed + kind) % stride; step <= length;
             step += stride, ++lives)
            live(scene, folder, beginning, faults_of_disks[kind], step, ++life);
    return lives;
}

void report(std::uint64_t lives) {
    if (all_crash_points()) MESSAGE(lives << " lives");
}

}  // namespace

TEST_CASE("what the gateway has acknowledged holds after a stop at any step") {
    const TemporaryFolder folder;  // for the lock only
    const FaultyDisk beginning;
    const QuietLog quiet;
    make_empty_store(folder, beginning);
    const auto script = script_of_clients();
    const Play::Step stop = [](Play& play) { play.stop(); };
    for (std::size_t step = 1; step <= script.size(); step += stop_stride) {
        auto stopped = script;
        stopped.insert(stopped.begin() + static_cast<std::ptrdiff_t>(step), {stop, stop});
        live_long({.shards = 2, .script = stopped}, folder, beginning);
    }
}

TEST_CASE("clients do not notice an upgrade at any step") {
    const TemporaryFolder folder;  // for the lock only
    const FaultyDisk beginning;
    const QuietLog quiet;
    make_empty_store(folder, beginning);
    const auto script = script_of_clients();
    for (std::size_t step = 1; step <= script.size(); step += stop_stride) {
        auto upgraded = script;
        upgraded.insert(
            upgraded.begin() + static_cast<std::ptrdiff_t>(step),
            [shards = static_cast<unsigned>(1 + step % 3)](Play& play) { play.upgrade(shards); });
        live_long({.shards = 2, .script = upgraded}, folder, beginning);
    }
    live_long({.shards = 2, .script = script, .upgrade_after = 1}, folder, beginning);
}

TEST_CASE("clients do not notice upgrades while they do random things") {
    const TemporaryFolder folder;  // for the lock only
    const FaultyDisk beginning;
    const QuietLog quiet;
    make_empty_store(folder, beginning);
    const std::uint32_t seeds = all_crash_points() ? 3000 : sanitized ? 20 : 100;
    for (std::uint32_t seed = 1; seed <= seeds; ++seed) {
        const Play::Scene scene{.shards = 1 + seed % 3,
                                .steps = 60,
                                .seed = seed,
                                .has_guests = seed % 4 >= 2,
                                .packs = seed % 5 == 0,
                                .upgrade_after = 1 + static_cast<int>(seed % 7)};
        live_long(scene, folder, beginning);
    }
}

TEST_CASE("promises to clients hold after any fault at any step") {
    const QuietLog quiet;
    for (const unsigned shards : {1u, 3u}) {
        const Play::Scene scene{.shards = shards, .script = script_of_clients()};
        report(crash_everywhere(scene, all_crash_points() ? 1 : script_stride));
    }
}

TEST_CASE("promises to clients hold while they do random things") {
    const QuietLog quiet;
    const std::uint32_t seeds = all_crash_points() ? 12 : sample_of_seeds;
    for (std::uint32_t seed = 1; seed <= seeds; ++seed) {
        const Play::Scene scene{
            .shards = 1 + seed % 3, .steps = 60, .seed = seed, .has_guests = seed % 4 >= 2};
        report(crash_everywhere(scene, all_crash_points() ? 1 : chance_stride));
    }
}

TEST_CASE("promises to clients hold when sessions are packed as soon as their clients are away") {
    const QuietLog quiet;
    const Play::Scene scripted{.shards = 2, .script = script_of_clients(), .packs = true};
    report(crash_everywhere(scripted, all_crash_points() ? 1 : script_stride));
    const std::uint32_t seeds = all_crash_points() ? 12 : sample_of_seeds;
    for (std::uint32_t seed = 1; seed <= seeds; ++seed) {
        const Play::Scene scene{.shards = 1 + seed % 3, .steps = 60, .seed = seed, .packs = true};
        report(crash_everywhere(scene, all_crash_points() ? 1 : chance_stride));
    }
}
