#include "server/data_store.h"

#include <filesystem>
#include <limits>
#include <utility>
#include <variant>

#include "server/store/sqlite_ledger.h"

namespace pulsegate {

namespace {

/// Of the disk, for what is stored.
std::size_t usual_share(const std::string& folder, std::size_t stored) {
    if (folder.empty()) return std::numeric_limits<std::size_t>::max();
    return (std::filesystem::space(folder).available + stored) / 5 * 4;
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

DataStore::DataStore(const Settings& settings)
    : is_kept_(!settings.folder.empty()),
      ledger_(std::make_unique<SqliteLedger>(
          SqliteLedger::Options{.folder = settings.folder,
                                .fsync = settings.fsync,
                                .events = settings.events,
                                .failed = settings.failed})),
      max_bytes_(settings.max_bytes != 0 ? settings.max_bytes
                                         : usual_share(settings.folder, ledger_->bytes())) {}

DataStore::~DataStore() = default;

KeptOut DataStore::restore(const std::vector<Broker*>& brokers) {
    auto [start, kept_out] = pulsegate::restore(*ledger_, brokers, monotonic_now());
    set_stamp_floor(start.floor);
    set_fingerprint_key(start.key);
    next_owner_ = start.next_owner;
    next_delayed_ = start.next_delayed;
    return std::move(kept_out);
}

std::size_t DataStore::bytes() const { return ledger_->bytes(); }

std::uint64_t DataStore::left_out() const { return ledger_->left_out(); }

std::uint64_t DataStore::damaged() const { return ledger_->damaged(); }

Ledger& DataStore::ledger() { return *ledger_; }

void DataStore::back_up(BackupOrder order, BackupAnswer answer) {
    ledger_->back_up(std::move(order), std::move(answer));
}

bool DataStore::refuses() const { return ledger_->refusing(); }

std::string DataStore::trouble() const { return ledger_->trouble(); }

bool DataStore::close() {
    const bool in_order = ledger_->close();
    ledger_.reset();
    return in_order;
}

}  // namespace pulsegate
