#include "server/session/receipts.h"

#include <utility>

#include "server/session/session.h"

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
                      Buffer refused) {
    thread_.assert_here();
    if (receipt == 0) receipt = open();
    Receipt& opened = *receipts_.at(receipt);
    opened.session = &session;
    opened.accepted = std::move(accepted);
    opened.refused = std::move(refused);
    answers.push_back(opened);
    settle(place_.index, receipt, false);
}

void Receipts::then(ReceiptId receipt, std::function<void(DebtRef)> last_step) {
    receipts_.at(receipt)->last_step = std::move(last_step);
}

void Receipts::settle(unsigned shard, ReceiptId receipt, bool refused) {
    if (closed_) return;
    thread_.assert_here();
    if (shard != place_.index) return host_.send(shard, ReceiptPart{receipt, refused});
    const auto found = receipts_.find(receipt);
    Receipt& settled = *found->second;
    settled.is_refused |= refused;
    if (--settled.open > 0) return;
    if (settled.last_step && !settled.is_refused) {
        ++settled.open;
        return std::exchange(settled.last_step, {})(new Debt(*this, shard, receipt));
    }
    Session* const session = settled.session;
    if (session) return send_ready(*session);
    receipts_.erase(found);
}

/// Sends the answers up to the first that has to wait.
void Receipts::send_ready(Session& session) {
    HeldAnswers& held = *session.state.exchanges().held();
    while (!held.empty() && held.front().open == 0) {
        const Receipt& next = held.front();
        if (!next.is_refused)
            session.link->send(next.accepted);
        else if (!next.refused.empty())
            session.link->send(next.refused);
        else
            session.disconnect(Reason::quota_exceeded, "the store does not take it");
        receipts_.erase(next.id);
    }
    session.state.exchanges().forget_held_if_empty();
}

void Receipts::forget(Session& session) {
    thread_.assert_here();
    HeldAnswers* const held = session.state.exchanges().held();
    if (!held) return;
    while (!held->empty()) {
        Receipt& first = held->front();
        held->pop_front();
        first.session = nullptr;
        if (first.open == 0) receipts_.erase(first.id);
    }
    session.state.exchanges().forget_held_if_empty();
}

DebtRef PendingReceipt::debt() {
    if (!debt_) {
        id_ = receipts_.add_part(id_);
        debt_ = new Debt(receipts_, receipts_.shard(), id_);
    }
    return debt_;
}

ReceiptId PendingReceipt::close() {
    debt_.reset();
    return id_;
}

}  // namespace pulsegate
