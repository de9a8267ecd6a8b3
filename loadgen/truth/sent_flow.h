#pragma once

#include <cstdint>
#include <memory>

#include "loadgen/truth/numbers.h"
#include "protocol/packet.h"

namespace pulsegate::load {

/// What a client has sent to one of its contacts: how many messages, and which of them may be
/// missing or may come twice although the server did nothing wrong.
class SentFlow {
public:
    std::uint32_t sent() const { return next_; }

    /// The number of the message that is about to be sent; `take` when it was.
    std::uint32_t next() const { return next_; }
    void take() { ++next_; }

    /// Acknowledgements come in order (MQTT-4.6.0-2 to -4).
    void acknowledged(std::uint32_t number) {
        if (number >= acknowledged_) acknowledged_ = number + 1;
    }
    void doubt(std::uint32_t number) { exceptions().in_doubt.add(number); }

    /// QoS 0 has no acknowledgement, but who answers a ping has read what came before it. To be
    /// told of pings that are sent while no other is unanswered.
    void ping_sent() { before_ping_ = next_; }
    void ping_answered() { read_ = before_ping_; }

    /// The connection ended, and the server may not have read what it was sent last. A kept session
    /// sends again what was not acknowledged; of a clean one `doubt` is told.
    void connection_ended(QoS qos, bool session_kept);

    /// The client took its leave with DISCONNECT: the server reads all that came before, but what
    /// it had not acknowledged is sent again all the same.
    void left(QoS qos, bool session_kept) {
        if (qos == QoS::at_most_once) read_ = next_;
        connection_ended(qos, session_kept);
    }

    /// The client does not come back: nobody sends again what was not acknowledged.
    void doubt_unacknowledged() {
        if (acknowledged_ < next_) exceptions().in_doubt.add(acknowledged_, next_);
    }

    const Numbers& in_doubt() const { return exceptions_ ? exceptions_->in_doubt : none; }
    const Numbers& sent_again() const { return exceptions_ ? exceptions_->sent_again : none; }

private:
    struct Exceptions {
        Numbers in_doubt;
        Numbers sent_again;
    };
    static const Numbers none;

    Exceptions& exceptions() {
        if (!exceptions_) exceptions_ = std::make_unique<Exceptions>();
        return *exceptions_;
    }

    std::uint32_t next_ = 0;
    std::uint32_t acknowledged_ = 0;
    std::uint32_t before_ping_ = 0;
    std::uint32_t read_ = 0;
    std::unique_ptr<Exceptions> exceptions_;
};

static_assert(sizeof(SentFlow) <= 24);

}  // namespace pulsegate::load
