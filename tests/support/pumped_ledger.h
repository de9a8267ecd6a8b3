#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "server/store/sqlite_ledger.h"
#include "tests/support/faulty_vfs.h"

namespace pulsegate {

/// The process or the machine has died.
class DiskIsDead : public std::runtime_error {
public:
    DiskIsDead() : std::runtime_error("the disk is dead") {}
};

/// The real ledger, without its timing: what is submitted waits here until `commit` hands it in,
/// and answers are called by `commit` too. So a play goes the same way each time, and the disk has
/// the same steps. It belongs to the thread that plays.
class PumpedLedger final : public Ledger {
public:
    PumpedLedger(SqliteLedger::Options options, const FaultyDisk& disk);

    /// Has everything committed that was submitted, in one transaction if the ledger likes, and
    /// calls the answers; what may be lost waits for others, unless `lazy_too`. Throws DiskIsDead
    /// if that comes first; then nobody is answered.
    void commit(bool lazy_too);

    /// Is everything committed, even what may be lost?
    bool is_idle() const { return waiting_.empty(); }

    /// The highest stamp in units that were committed.
    Stamp committed() const { return committed_; }

    Start load(Visitor& visitor) override { return ledger_.load(visitor); }
    void submit(Unit unit) override;
    void submit_lazily(Unit unit) override;
    void take_delayed(std::int64_t before, std::size_t most, DelayedAnswer answer) override;

    /// Answered at once during the start.
    void read_messages(std::vector<Stamp> stamps, MessagesAnswer answer) override;
    void end_start() { is_started_ = true; }

    void list_delayed(std::optional<std::string> user, std::uint64_t after, std::size_t most,
                      DelayedAnswer answer) override {
        ledger_.list_delayed(std::move(user), after, most, std::move(answer));
    }

    void read_events(EventNumber after, std::uint32_t kinds, std::size_t most,
                     EventsAnswer answer) override {
        ledger_.read_events(after, kinds, most, std::move(answer));
    }
    void list_dead_letters(EventNumber after, bool to_replay, std::size_t most,
                           DeadLettersAnswer answer) override {
        ledger_.list_dead_letters(after, to_replay, most, std::move(answer));
    }
    void watch_events(std::function<void()> told) override {
        ledger_.watch_events(std::move(told));
    }
    EventLogState events() const override { return ledger_.events(); }

    std::int64_t next_delayed() const override { return ledger_.next_delayed(); }
    DelayedTotal delayed_total(const std::optional<std::string>& user) const override {
        return ledger_.delayed_total(user);
    }
    DelayedClaimRef claim_delayed(const std::string& user, const DelayedTotal& room,
                                  const DelayedSums::Fits& fits) override {
        return ledger_.claim_delayed(user, room, fits);
    }
    std::size_t bytes() const override { return ledger_.bytes(); }
    bool refusing() const override { return ledger_.refusing(); }

private:
    struct Waiting {
        std::function<void(bool lazily)> hand_in;
        bool is_read = false;  ///< never lazy
    };

    void hand_in();
    void await_answers();
    void give_answers();
    void answered(bool refused, std::function<void()> answer);

    const FaultyDisk& disk_;
    std::vector<Waiting> waiting_;
    bool urgent_ = false;  ///< some of them are
    bool is_started_ = false;
    std::size_t handed_in_ = 0;  ///< and not answered
    Stamp committed_ = 0;

    std::mutex mutex_;  // what the ledger's thread uses, too:
    std::condition_variable changed_;
    std::vector<std::function<void()>> answers_;
    bool refused_ = false;

    SqliteLedger ledger_;  // ends first
};

}  // namespace pulsegate
