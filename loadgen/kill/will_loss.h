#pragma once

#include "loadgen/kill/book.h"

namespace pulsegate::kill {

/// A connection with a will that has ended, and what is promised of the will. What the broker may
/// not have written down before it ended itself is left open.
class WillLoss {
public:
    enum class Promise : std::uint8_t { open, comes, must_not_come };

    struct Connection {
        Message will{};
        Duration delay{};
        Time since{};
    };
    WillLoss(const Connection& connection, Time at, bool goodbye)
        : connection_(connection), at_(at), delay_began_(at), goodbye_(goodbye) {}

    const Message& will() const { return connection_.will; }

    /// `may_be_back`: the client had sent a CONNECT that was not answered.
    void broker_ended(Time now, bool may_be_back);
    /// Its clock has made a step before that.
    void broker_serves(Duration step, Time now);

    /// If the client stays away, the will must have come by now.
    bool is_over(Time now) const;
    /// What is promised if the client is back now, or if it is over.
    Promise promise(Time now) const;

private:
    const Connection connection_;
    const Time at_;
    Time delay_began_;  ///< at the latest; `Time::max()`: the broker is down
    const bool goodbye_;
    bool open_ = false;
    bool put_forward_ = false, put_back_ = false;
};

}  // namespace pulsegate::kill
