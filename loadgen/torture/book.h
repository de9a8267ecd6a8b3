#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "loadgen/time.h"
#include "loadgen/torture/message.h"

namespace pulsegate::torture {

using load::Duration;
using load::Time;

/// What is said of one kind of traffic.
struct Counts {
    std::uint64_t sent = 0;
    std::uint64_t acknowledged = 0;
    std::uint64_t received = 0;  ///< once or several times; retained: values that were read
    std::uint64_t lost = 0;      ///< acknowledged, and not received so far; retained: not read
    std::uint64_t repeated = 0;
    std::uint64_t out_of_order = 0;
    std::uint64_t early = 0;
    std::uint64_t late = 0;
    std::uint64_t refused = 0;
    std::uint64_t unknown = 0;  ///< QoS 2, and the session is gone that would have told
    Duration latest{};          ///< the greatest lateness
};

/// Something that must not happen.
struct Fault {
    std::string what;
    Time at{};
};

/// What was sent, acknowledged and received, and the judgement of it. It has no clock and no
/// socket: the clients tell it what they did and saw.
class Book {
public:
    /// A new message; `delay` only if it is a delayed one.
    Message send(const Stream& stream, Time now, Duration delay = {});

    /// The broker is answerable for it from now on.
    void acknowledge(const Message& message, Time now);
    void refuse(const Message& message);

    /// Nobody will learn whether the broker has it.
    void give_up(const Message& message);

    /// `receiver` got it as a new message, not as a retransmission of its protocol. It has been
    /// connected since then, and so could not have had it earlier.
    void receive(const Message& message, std::uint16_t receiver, Time now, Time connected_since);

    /// The last value that the broker has acknowledged; 0: none. Whoever subscribes now must get it
    /// or a later one.
    std::map<Stream, std::uint32_t> acknowledged_values() const;
    /// A new subscriber got this value, or 0 for none, and `least` was acknowledged before.
    void read_value(const Message& value, std::uint32_t least, Time now);

    /// The broker forgot a session that it had confirmed.
    void lose_session(const std::string& client, Time now);
    /// Its old session is gone: what had begun to come may come again after what is newer.
    void begin_order_anew(std::uint16_t receiver);
    /// What else a broker must never do, in words.
    void note_fault(const std::string& what, Time now);

    const Counts& counts(Kind kind) const { return counts_[static_cast<std::size_t>(kind)]; }
    std::uint64_t sessions_lost() const { return sessions_lost_; }
    /// Messages that nobody has sent, or to somebody else, and breaches of the protocol.
    std::uint64_t other_faults() const { return other_faults_; }

    /// Acknowledged messages that nobody has received so far.
    std::uint64_t missing() const;
    Time last_arrival() const { return last_arrival_; }
    /// When the last delayed message is to come.
    Time last_due() const { return last_due_; }

    /// Nothing is lost, early, out of order, or repeated at QoS 2.
    bool kept() const;
    /// The first ten of each sort.
    std::vector<Fault> faults() const;

private:
    enum class Fate : std::uint8_t { open, acknowledged, refused, unknown };
    struct Entry {
        Time sent{};
        Time acknowledged{};
        Duration delay{};
        std::uint32_t times_received = 0;
        Fate fate = Fate::open;
    };
    struct Sheet {
        std::vector<Entry> entries;  ///< number 1 comes first
        std::uint32_t latest =
            0;  ///< number of the latest that was received or, of values, acknowledged
    };

    Counts& of(const Message& message) {
        return counts_[static_cast<std::size_t>(message.stream.kind)];
    }
    Entry* find(const Message& message);
    void describe_fault(const char* sort, const std::string& what, Time at);
    void judge_order(const Message& message, Time now);
    void judge_time(const Message& message, const Entry& entry, Time now, Time connected_since);

    std::map<Stream, Sheet> sheets_;
    std::array<Counts, all_kinds.size()> counts_;
    std::uint64_t sessions_lost_ = 0;
    std::uint64_t other_faults_ = 0;
    Time last_arrival_{};
    Time last_due_{};
    std::map<std::string, std::vector<Fault>> faults_;  ///< by sort
};

/// How much before its time a delayed message may come: clocks that are read at two places differ.
constexpr Duration early_tolerance = std::chrono::milliseconds(10);

/// A delayed message is late if it comes later than this after it was due, and its receiver there.
constexpr Duration late_after = std::chrono::seconds(1);

}  // namespace pulsegate::torture
