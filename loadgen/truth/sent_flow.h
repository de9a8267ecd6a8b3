#pragma once

#include <cstdint>
#include <memory>

#include "loadgen/truth/numbers.h"
#include "loadgen/truth/send_times.h"
#include "protocol/packet.h"

namespace pulsegate::load {

/// The messages that a client has sent to one of its contacts: their number, when they were sent,
/// and which of them may be missing or may come twice without a fault of the server.
class SentFlow {
public:
    std::uint32_t sent() const { return next_; }

    /// The number of the next message to send; call `take` when it was sent.
    std::uint32_t next() const { return next_; }
    void take() { ++next_; }
    /// The same; it is not sent earlier than `now`, of the run's common clock.
    void take(Time now) {
        details().times.add(next_, now);
        take();
    }

    /// Acknowledgements mostly come in order. Numbers that are skipped may still be unacknowledged
    /// when the connection ends, and then a kept session sends them again.
    void acknowledged(std::uint32_t number) {
        if (number < acknowledged_) return;
        if (number > acknowledged_) details().sent_again.add(acknowledged_, number);
        acknowledged_ = number + 1;
    }
    void doubt(std::uint32_t number) { details().in_doubt.add(number); }

    /// QoS 0 has no acknowledgement, but a server that answers a ping has read everything before
    /// it. Call it for pings that are sent while no other ping is unanswered.
    void ping_sent() { before_ping_ = next_; }
    void ping_answered() { read_ = before_ping_; }

    /// The connection ended, and the server may not have read the last messages. A kept session
    /// sends unacknowledged messages again; for a clean session, `doubt` is told.
    void connection_ended(QoS qos, bool session_kept);

    /// The client left with DISCONNECT: the server reads everything before it, but unacknowledged
    /// messages are sent again nevertheless.
    void left(QoS qos, bool session_kept) {
        if (qos == QoS::at_most_once) read_ = next_;
        connection_ended(qos, session_kept);
    }

    /// The client does not come back, so nobody sends unacknowledged messages again.
    void doubt_unacknowledged() {
        if (acknowledged_ < next_) details().in_doubt.add(acknowledged_, next_);
    }

    const Numbers& in_doubt() const { return known_details().in_doubt; }
    const Numbers& sent_again() const { return known_details().sent_again; }
    const SendTimes& times() const { return known_details().times; }

private:
    struct Details {
        Numbers in_doubt;
        Numbers sent_again;
        SendTimes times;
    };
    static const Details none;

    Details& details() {
        if (!details_) details_ = std::make_unique<Details>();
        return *details_;
    }
    const Details& known_details() const { return details_ ? *details_ : none; }

    std::uint32_t next_ = 0;
    std::uint32_t acknowledged_ = 0;
    std::uint32_t before_ping_ = 0;
    std::uint32_t read_ = 0;
    std::unique_ptr<Details> details_;
};

static_assert(sizeof(SentFlow) <= 24);

}  // namespace pulsegate::load
