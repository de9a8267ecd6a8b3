#include "server/session/sending/answers.h"

#include <algorithm>
#include <utility>

namespace pulsegate {

namespace {

/// A client with this many unanswered bytes must wait before it publishes more. In 5.0,
/// receive-maximum also limits the number of messages. In 3.1.1 nothing does, so 256 small messages
/// count as this many bytes.
constexpr std::size_t most_unanswered = 1024 * 1024;
constexpr std::size_t least_charge = most_unanswered / 256;

/// Continues with the client's packets and with the messages to it, which have waited.
void go_on_after_connack(Link& link) {
    link.connack_sent();
    link.notify_when_drained();
}

}  // namespace

void Answers::send_connack(Session& session, Buffer connack, ReceiptId receipt, Buffer refused) {
    session.awaits_connack = receipt != 0;
    hold(session, receipt, std::move(connack), std::move(refused));
}

void Answers::answer_instead(ReceiptId receipt, std::uint16_t packet_id, QoS qos, Reason reason) {
    if (qos == QoS::at_least_once) replace(receipt, Puback{packet_id, reason, {}});
    if (qos == QoS::exactly_once) replace(receipt, Pubrec{packet_id, reason, {}});
}

/// Replaces the packet that was given to `answer`, if the client is still connected.
template <class AnyPacket>
void Answers::replace(ReceiptId receipt, const AnyPacket& packet) {
    if (const Session* session = receipts_.session_of(receipt))
        receipts_.replace_accepted(receipt, encoded(*session, packet));
}

bool Answers::has_any(const Session& session) {
    return session.state.exchanges().answers().charge > 0;
}

bool Answers::are_too_many(const Session& session) {
    return session.state.exchanges().answers().charge >= most_unanswered;
}

std::size_t Answers::charge_for(std::size_t message_bytes) {
    return std::max(message_bytes, least_charge);
}

void Answers::hold(Session& session, ReceiptId receipt, Buffer accepted, Buffer refused,
                   std::size_t charge, Held kind) {
    thread_.assert_here();
    if (accepted.empty()) {
        if (receipt != 0) receipts_.settle(receipt);
        return session.disconnect(Reason::packet_too_large,
                                  "an answer is larger than the client's Maximum Packet Size");
    }
    counters_.count_out(static_cast<PacketType>(static_cast<std::uint8_t>(accepted[0]) >> 4));
    Exchanges& exchanges = session.state.exchanges();
    if (receipt == 0 && exchanges.answers().empty()) return session.link->send(accepted);
    // The charge of PUBLISH packets is limited separately, see HeldAnswers.
    if (kind != Held::message)
        charge = std::max(charge, sizeof(Receipt) + accepted.size() + refused.size());
    receipts_.answer(session, exchanges.open_answers(totals_), receipt, std::move(accepted),
                     std::move(refused), charge, kind);
}

/// Sends the answers up to the first one that must wait, and resumes messages that waited behind
/// them.
void Answers::send_ready(Session& session) {
    HeldAnswers& held = session.state.exchanges().open_answers(totals_);
    if (held.empty() || held.front().open > 0) return;
    while (!held.empty() && held.front().open == 0) {
        held.count_out(held.front());
        send(held.front(), session);
        receipts_.forget(held.front());
    }
    if (session.state.exchanges().outbox().unsent() || session.replay)
        session.link->notify_when_drained();
    session.state.exchanges().free_if_idle();
}

void Answers::send(const Receipt& answer, Session& session) {
    constexpr const char* why = "the store does not take it";
    const bool is_connack = session.awaits_connack;
    // After a refusal, the client will never get a CONNACK that accepts it.
    session.awaits_connack = is_connack && answer.is_refused;
    const Buffer& packet = answer.is_refused ? answer.refused : answer.accepted;
    if (!packet.empty()) session.link->send(packet);
    if (is_connack && answer.is_refused)
        session.link->end({Cause::kicked, Reason::success, why, true});  // no DISCONNECT follows it
    else if (is_connack)
        go_on_after_connack(*session.link);
    else if (packet.empty())
        session.link->end({Cause::kicked, Reason::quota_exceeded, why, true});
}

void Answers::forget(Session& session) {
    thread_.assert_here();
    session.awaits_connack = false;
    Exchanges& exchanges = session.state.exchanges();
    if (exchanges.answers().empty()) return;
    HeldAnswers& held = exchanges.open_answers(totals_);
    while (!held.empty()) {
        Receipt& first = held.front();
        held.count_out(first);
        held.pop_front();
        receipts_.forget(first);
    }
    exchanges.free_if_idle();
}

}  // namespace pulsegate
