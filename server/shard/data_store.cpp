#include "server/shard/data_store.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>
#include <variant>

#include "server/session/durable/journal.h"
#include "server/store/sqlite_ledger.h"

namespace pulsegate {

namespace {

/// The part of the disk that stored data may use.
std::size_t usual_share(const std::string& folder, std::size_t stored) {
    if (folder.empty()) return std::numeric_limits<std::size_t>::max();
    return (std::filesystem::space(folder).available + stored) / 5 * 4;
}

/// Events must not take the room of waiting messages: when that is used up, sessions end.
std::size_t event_log_share(std::size_t stated, std::size_t all) {
    constexpr std::size_t usual = std::size_t{256} * 1024 * 1024;
    if (stated == 0) return std::min(usual, all / 4);
    if (stated > all / 2)
        spdlog::warn(
            "event-log-bytes: more than half of the {} bytes for all stored data; that half is "
            "used",
            all);
    return std::min(stated, all / 2);
}

std::size_t page_cache(std::size_t memory_budget) {
    constexpr std::size_t usual = std::size_t{64} * 1024 * 1024;
    return std::min(usual, memory_budget / 10);
}

}  // namespace

UnitDone unit_done(Outcome outcome, std::vector<Operation>& given_back) {
    UnitDone done{.refused = outcome == Outcome::refused,
                  .operations = {},
                  .incomplete = outcome == Outcome::incomplete};
    for (const Operation& operation : given_back)
        if (const auto* cancel = std::get_if<CancelDelayed>(&operation))
            done.cancelled.push_back(cancel->found);
    if (done.refused) done.operations = std::move(given_back);
    return done;
}

MessagesRead messages_read(SessionId session, Outcome outcome, std::vector<Stamp> asked,
                           const std::vector<StoredMessage>& stored, Millis now) {
    MessagesRead read{session, outcome == Outcome::refused, std::move(asked)};
    for (const StoredMessage& each : stored) read.found.push_back(message_of(each, now));
    return read;
}

DataStore::DataStore(const Settings& settings, UniqueFd lock)
    : settings_(settings),
      is_kept_(!settings.folder.empty() || settings.rows),
      ledger_(open(std::move(lock))),
      max_bytes_(settings.max_bytes != 0 ? settings.max_bytes
                                         : usual_share(settings.folder, ledger_->bytes())) {
    set_room();
}

DataStore::~DataStore() = default;

std::unique_ptr<SqliteLedger> DataStore::open(UniqueFd lock) const {
    const bool is_passed = static_cast<bool>(lock);
    auto ledger = std::make_unique<SqliteLedger>(
        SqliteLedger::Options{.folder = settings_.folder,
                              .fsync = settings_.fsync,
                              .cache_bytes = page_cache(settings_.memory_budget),
                              .events = {.webhook_kinds = settings_.webhook_kinds},
                              .sources = settings_.shards,
                              .failed = settings_.failed,
                              .was_closed = is_passed,
                              .rows = settings_.rows},
        std::move(lock));
    ledger->keep_all_events(is_passed);
    return ledger;
}

void DataStore::set_room() {
    ledger_->set_room(max_bytes_, event_log_share(settings_.event_log_bytes, max_bytes_));
}

KeptOut DataStore::restore(const std::vector<Restore*>& shards) {
    restored_ = pulsegate::restore(*ledger_, shards, monotonic_now);
    const Ledger::Start& start = restored_.start;
    set_stamp_floor(start.floor);
    set_fingerprint_key(start.key);
    owners_.use(start.owners);
    next_delayed_ = start.next_delayed;
    return std::move(restored_.kept_out);
}

void DataStore::begin() { store_restored(*ledger_, restored_); }

void DataStore::serve() { ledger_->keep_all_events(false); }

UniqueFd DataStore::suspend() {
    UniqueFd lock = ledger_->share_lock();
    if (!ledger_->close()) return {};
    ledger_.reset();
    return lock;
}

void DataStore::resume(UniqueFd lock) {
    struct : Ledger::Visitor {
    } knows_all;
    ledger_.reset();
    ledger_ = open(std::move(lock));
    serve();
    set_room();
    ledger_->load(knows_all);
    for (const auto& told : watchers_) ledger_->watch_events(told);
}

void DataStore::watch_events(std::function<void()> told) {
    watchers_.push_back(told);
    ledger_->watch_events(std::move(told));
}

std::size_t DataStore::bytes() const { return ledger_->bytes(); }

std::optional<std::uintmax_t> DataStore::free_disk() const {
    if (settings_.folder.empty()) return std::nullopt;
    std::error_code error;
    const auto space = std::filesystem::space(settings_.folder, error);
    if (error) return std::nullopt;
    return space.available;
}

std::uint64_t DataStore::left_out() const { return ledger_->left_out(); }

std::uint64_t DataStore::damaged() const { return ledger_->damaged(); }
const std::optional<StoreDamage>& DataStore::damage() const { return ledger_->damage(); }

Ledger& DataStore::ledger() { return *ledger_; }

void DataStore::back_up(BackupOrder order, BackupAnswer answer) {
    ledger_->back_up(std::move(order), std::move(answer));
}

bool DataStore::takes_nothing_new() const { return ledger_->full(); }

bool DataStore::refuses() const { return ledger_->refusing(); }

std::string DataStore::trouble() const { return ledger_->trouble(); }

std::string DataStore::why_refused() const {
    const std::string why = trouble();
    return why.empty() ? fmt::format("{} is in trouble", ledger_->place()) : why;
}

bool DataStore::close() {
    const bool in_order = ledger_->close();
    ledger_.reset();
    return in_order;
}

}  // namespace pulsegate
