#include "server/session/durable/receipts.h"

#include <iterator>
#include <utility>

namespace pulsegate {

ReceiptId Receipts::open() {
    thread_.assert_here();
    ++last_;
    receipts_.emplace(last_, std::make_unique<Receipt>(last_));
    return last_;
}

ReceiptId Receipts::add_part(ReceiptId receipt) {
    if (receipt == 0) receipt = open();
    ++receipts_.at(receipt)->open;
    return receipt;
}

void Receipts::answer(Session& session, HeldAnswers& answers, ReceiptId receipt, Buffer accepted,
                      Buffer refused, std::size_t charge, Held kind) {
    thread_.assert_here();
    if (receipt == 0) receipt = open();
    Receipt& opened = *receipts_.at(receipt);
    opened.session = &session;
    opened.accepted = std::move(accepted);
    opened.refused = std::move(refused);
    opened.charge = static_cast<std::uint32_t>(charge);
    opened.kind = kind;
    answers.count(opened);
    answers.push_back(opened);
    close_part(opened);
}

void Receipts::then(ReceiptId receipt, LastStep last_step) {
    receipts_.at(receipt)->last_step = std::move(last_step);
}

void Receipts::watch(ReceiptId receipt, OnPublished report) {
    OnPublished& reports = receipts_.at(receipt)->report;
    if (reports)
        report = [first = std::move(reports), second = std::move(report)](const Published& what) {
            first(what);
            second(what);
        };
    reports = std::move(report);
}

void Receipts::report(ReceiptId receipt, const Published& here, OnPublished report) {
    thread_.assert_here();
    if (receipt == 0) receipt = open();
    Receipt& opened = *receipts_.at(receipt);
    opened.report = std::move(report);
    opened.published.not_retained = here.not_retained;
    opened.published.reach += here.reach;
    close_part(opened);
}

void Receipts::settle(unsigned shard, SettledPart part) {
    if (closed_) return;
    thread_.assert_here();
    if (shard != place_.index) return shards_.send(shard, std::move(part));
    Receipt& settled = *receipts_.find(part.receipt)->second;
    settled.is_refused |= part.refused;
    settled.published.reach += part.reach;
    Collected& collected = settled.collected;
    if (!part.receivers.empty()) collected.shards.push_back(part.from);
    std::move(part.receivers.begin(), part.receivers.end(),
              std::back_inserter(collected.receivers));
    close_part(settled);
}

void Receipts::close_part(Receipt& receipt) {
    if (closed_ || --receipt.open > 0) return;
    if (receipt.last_step) {
        ++receipt.open;
        receipt.collected.reach = receipt.published.reach;
        const PartRef part = new OpenPart(*this, place_.index, receipt.id);
        return std::exchange(receipt.last_step, {})(part, std::move(receipt.collected));
    }
    receipt.published.refused = receipt.is_refused;
    if (receipt.report) std::exchange(receipt.report, {})(receipt.published);
    if (Session* const session = receipt.session) return send_ready_(*session);
    receipts_.erase(receipt.id);
}

void Receipts::forget(Receipt& receipt) {
    receipt.session = nullptr;
    if (receipt.open == 0) receipts_.erase(receipt.id);
}

void Receipts::stop_collecting(Stamp stamp) {
    const auto found = unstored_.find(stamp);
    if (closed_ || found == unstored_.end()) return;
    const auto& [waiting, done] = found->second;
    const bool is_awaited = !waiting.empty() || !done.empty();
    if (!is_awaited) {
        unstored_.erase(found);
        return;
    }
    // Sessions may have received the retained message because they have subscribed meanwhile. This
    // shard's journal stores it for them.
    shards_.send(place_.index, MessageStored{stamp});
}

void Receipts::add_part_if_collected(Stamp stamp, PendingReceipt& receipt) {
    const auto found = unstored_.find(stamp);
    if (found != unstored_.end()) found->second.waiting.push_back(receipt.add_part());
}

bool Receipts::note_done_if_collected(Stamp stamp, OwnerId owner) {
    const auto found = unstored_.find(stamp);
    if (found == unstored_.end()) return false;
    found->second.done.push_back(owner);
    return true;
}

std::vector<OwnerId> Receipts::stored(const MessageStored& message) {
    const auto found = unstored_.find(message.stamp);
    if (found == unstored_.end()) return {};
    NotStored stored = std::move(found->second);
    unstored_.erase(found);
    for (const ReceiptId receipt : stored.waiting) settle(receipt);
    return std::move(stored.done);
}

void PendingReceipt::then(LastStep last_step) {
    if (id_ == 0) id_ = receipts_.open();
    receipts_.then(id_, std::move(last_step));
}

void PendingReceipt::count(DeliveryOutcome outcome) {
    reach_.count(outcome);
    if (outcome != DeliveryOutcome::refused) return;
    if (const PartRef own = part()) own->refuse();
}

ReceiptId PendingReceipt::add_part() {
    is_open_ = true;
    if (!only_counts_) id_ = receipts_.add_part(id_);
    return id_;
}

PartRef PendingReceipt::part() {
    is_open_ = true;
    if (!part_ && !only_counts_) {
        id_ = receipts_.add_part(id_);
        part_ = new OpenPart(receipts_, receipts_.shard(), id_, stamp(), is_retried_);
    }
    return part_;
}

ReceiptId PendingReceipt::close() {
    part_.reset();
    return id_;
}

}  // namespace pulsegate
