#include "tests/support/pumped_ledger.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <utility>
#include <variant>

#include "tests/support/patience.h"

namespace pulsegate {

namespace {

Stamp highest_put(const std::vector<Operation>& operations) {
    Stamp highest = 0;
    for (const Operation& operation : operations)
        if (const auto* put = std::get_if<PutMessage>(&operation))
            highest = std::max(highest, put->stamp);
    return highest;
}

}  // namespace

PumpedLedger::PumpedLedger(SqliteLedger::Options options, const FaultyDisk& disk)
    : disk_(disk), ledger_(std::move(options)) {}

void PumpedLedger::submit(Unit unit) {
    const bool is_of_start = !is_started_ && unit.source == 0;
    if (is_of_start) return ledger_.submit(std::move(unit));
    submit_lazily(std::move(unit));
    urgent_ = true;
}

void PumpedLedger::submit_lazily(Unit unit) {
    const auto kept = std::make_shared<Unit>(std::move(unit));
    waiting_.push_back({[this, kept](bool lazily) {
        const Stamp highest = highest_put(kept->operations);
        Unit handed_in{std::move(kept->operations),
                       [this, kept, highest](Outcome outcome, std::vector<Operation>& operations) {
                           kept->operations = std::move(operations);
                           answered(outcome == Outcome::refused, [this, kept, highest, outcome] {
                               if (outcome == Outcome::committed)
                                   committed_ = std::max(committed_, highest);
                               if (kept->completion) kept->completion(outcome, kept->operations);
                           });
                       },
                       kept->source, kept->generation};
        if (lazily)
            ledger_.submit_lazily(std::move(handed_in));
        else
            ledger_.submit(std::move(handed_in));
    }});
}

void PumpedLedger::take_delayed(std::int64_t before, std::size_t most, DelayedAnswer answer) {
    urgent_ = true;
    const auto take = [this, before, most, answer = std::move(answer)](bool) {
        ledger_.take_delayed(before, most, [this, answer](Outcome outcome, auto taken) {
            answered(outcome == Outcome::refused,
                     [answer, outcome, taken = std::move(taken)] { answer(outcome, taken); });
        });
    };
    waiting_.push_back({take, true});
}

void PumpedLedger::read_messages(std::vector<Stamp> stamps, MessagesAnswer answer) {
    if (!is_started_) return ledger_.read_messages(std::move(stamps), std::move(answer));
    urgent_ = true;
    const auto read = [this, stamps = std::move(stamps), answer = std::move(answer)](bool) {
        ledger_.read_messages(stamps, [this, answer](Outcome outcome, auto found) {
            answered(outcome == Outcome::refused,
                     [answer, outcome, found = std::move(found)] { answer(outcome, found); });
        });
    };
    waiting_.push_back({read, true});
}

void PumpedLedger::commit(bool lazy_too) {
    if (disk_.dead()) throw DiskIsDead();
    if (lazy_too) submit({});
    if (std::exchange(urgent_, false)) hand_in();
}

/// All but the last one lazily, so that the ledger's thread finds all of them when it wakes.
void PumpedLedger::hand_in() {
    auto requests = std::exchange(waiting_, {});
    for (Waiting& request : requests) {
        const bool is_last = &request == &requests.back();
        ++handed_in_;
        request.hand_in(!is_last);
        if (is_last || request.is_read) await_answers();
    }
    give_answers();
}

void PumpedLedger::await_answers() {
    using namespace std::chrono_literals;
    std::unique_lock lock(mutex_);
    while (answers_.size() < handed_in_ && !disk_.dead()) changed_.wait_for(lock, 300us);
    // What the ledger does next must not depend on how soon it finds that the disk works again.
    const bool is_settled = comes_true(
        [this] { return !refused_ || !ledger_.refusing() || disk_.is_broken() || disk_.dead(); });
    if (!is_settled) throw std::runtime_error("the ledger does not find that the disk works");
    if (disk_.dead()) throw DiskIsDead();
    refused_ = false;
}

void PumpedLedger::give_answers() {
    std::vector<std::function<void()>> answers;
    {
        const std::lock_guard lock(mutex_);
        answers.swap(answers_);
    }
    handed_in_ = 0;
    for (const auto& answer : answers) answer();
}

void PumpedLedger::answered(bool refused, std::function<void()> answer) {
    const std::lock_guard lock(mutex_);
    answers_.push_back(std::move(answer));
    refused_ |= refused;
    changed_.notify_one();
}

}  // namespace pulsegate
