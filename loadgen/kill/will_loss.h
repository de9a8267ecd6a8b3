#pragma once

#include <cstdint>
#include <optional>

#include "loadgen/kill/message_checker.h"

namespace pulsegate::kill {

enum class BrokerEnd : std::uint8_t { stop, kill };

struct BrokerStart {
    Duration step{};            ///< that its clock has made before
    Time started{};             ///< before it served
    Duration time_to_notice{};  ///< besides the limit of silence, to learn that a client has gone
};

/// An ended connection with a will, and the promise about the will. Facts that the broker may not
/// have stored before its own end are left open.
class WillLoss {
public:
    enum class Promise : std::uint8_t { open, comes, must_not_come };

    struct Connection {
        Message will{};
        Duration delay{};
        Time since{};
        Duration limit{};  ///< limit of silence: after a kill, the connection ends when it has
                           ///< passed
        int slowness = 1;  ///< slowness of the broker, which may take this many times longer
    };
    WillLoss(const Connection& connection, Time at, bool goodbye)
        : connection_(connection), at_(at), delay_began_(at), goodbye_(goodbye) {}

    const Message& will() const { return connection_.will; }

    /// `may_be_back`: the client had sent a CONNECT that was not answered.
    void broker_ended(BrokerEnd how, Time now, bool may_be_back);
    void broker_serves(const BrokerStart& start, Time now);

    /// If the client stays away, must the will have arrived by now?
    bool is_over(Time now) const;
    /// The promise if the client is back now, or if it is over. The client may have been back
    /// earlier by `own_delay`, because this program stood still.
    Promise promise(Time now, Duration own_delay = {}) const;
    /// Has a kill cut the client off, so that the broker waits for it?
    bool is_awaited() const { return awaited_ != Awaited::no; }
    /// After a kill has cut the client off: the will must not arrive before this time.
    std::optional<Time> not_before() const;

private:
    /// Does the client still count as connected for the broker?
    enum class Awaited : std::uint8_t { no, perhaps, yes };
    Awaited awaited_after_kill(Time now) const;

    /// The time until a login or its end is stored.
    Duration time_for_disk() const;
    /// After the will's delay: brokers count in seconds.
    Duration time_for_will() const;

    const Connection connection_;
    const Time at_;
    Time delay_began_;  ///< at the latest; `Time::max()`: the broker is down
    const bool goodbye_;
    Time started_{};  ///< the broker, since the client was gone
    Awaited awaited_ = Awaited::no;
    bool open_ = false;
    bool put_forward_ = false, put_back_ = false;
};

}  // namespace pulsegate::kill
