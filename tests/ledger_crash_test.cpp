#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/store/sqlite_ledger.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/ledger_model.h"
#include "tests/support/ledger_script.h"
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

/// Submits a script, and notes what it is told.
class Player {
public:
    Player(const LedgerScript& script, const FaultyDisk& disk) : script_(script), disk_(disk) {}

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

    const LedgerScript& script_;
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
            .stop_patience = 0ms,    // what still waits at an end, waits for a disk that is dead
            .wal_bytes = 24 * 4096,  // so that there are checkpoints, too
            .vfs = disk.vfs()};
}

/// One life of the store: a fault in it, and what the next starts find.
class Life {
public:
    Life(const TemporaryFolder& folder, const LedgerScript& script, std::uint32_t seed)
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
    const LedgerScript& script_;
    FaultyDisk disk_;
    std::mt19937 random_;
};

constexpr std::uint64_t written_stride = sanitized ? 17 : 11;
constexpr std::uint64_t random_stride = sanitized ? 151 : 83;

bool all_steps() { return std::getenv("PULSEGATE_LEDGER_CRASHES") != nullptr; }

/// Lives with a fault at every `stride`th step, another one for each kind of fault.
void fail_everywhere(const LedgerScript& script, std::uint32_t seed, std::uint64_t stride) {
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

TEST_CASE(
    "after any fault at any step, committed units are stored, and each unit is whole or absent") {
    const QuietLog quiet;
    fail_everywhere(written_script(), 1, all_steps() ? 1 : written_stride);
}

TEST_CASE("random units survive random faults") {
    const QuietLog quiet;
    const std::uint32_t scripts = all_steps() ? 20 : 4;
    for (std::uint32_t seed = 1; seed <= scripts; ++seed)
        fail_everywhere(random_script(seed, 120), seed, all_steps() ? 1 : random_stride);
}
