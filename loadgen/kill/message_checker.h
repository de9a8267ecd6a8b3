#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "loadgen/kill/message.h"
#include "loadgen/stalls.h"
#include "loadgen/time.h"

namespace pulsegate::kill {

using load::Duration;
using load::Time;

/// The counts of one kind of traffic.
struct Counts {
    std::uint64_t sent = 0;
    std::uint64_t acknowledged = 0;
    std::uint64_t received = 0;  ///< once or several times; retained: values that were read
    std::uint64_t lost = 0;      ///< acknowledged, and not received so far; retained: not read
    std::uint64_t repeated = 0;
    std::uint64_t wrongly_repeated = 0;  ///< of these: at QoS 2, or to another member of a group
    std::uint64_t out_of_order = 0;
    std::uint64_t early = 0;
    std::uint64_t late = 0;
    std::uint64_t outdated = 0;  ///< came after their expiry
    std::uint64_t unwanted = 0;  ///< wills that had been taken back
    std::uint64_t refused = 0;
    std::uint64_t unknown = 0;  ///< QoS 2, and the session that would show the result is gone
    Duration latest{};          ///< the greatest lateness
};

/// Something that must not happen.
struct Fault {
    std::string what;
    Time at{};
};

/// The terms of a message.
struct Terms {
    Duration delay{};     ///< time until it may arrive
    Duration lifetime{};  ///< time after which it must not arrive; zero: no limit
};

/// The arrival of a message.
struct Arrival {
    std::uint16_t receiver = 0;  ///< or the group
    Time at{};
    Time connected_since{};    ///< so the receiver can't have got it earlier
    std::uint16_t member = 0;  ///< of the group
    bool session_kept = true;  ///< false: the session began with this connection, so messages in
                               ///< flight come again
    bool dup = false;          ///< the broker says that it has tried before
};

/// Records what was sent, acknowledged and received, and judges it. It has no clock and no socket:
/// the clients report what they did and saw.
class MessageChecker {
public:
    Message send(const Stream& stream, Time now, const Terms& terms = {});

    /// At QoS 1, it may arrive twice because of this.
    void send_again(const Message& message);

    /// The broker is responsible for it from now on.
    void acknowledge(const Message& message, Time now);
    void refuse(const Message& message);

    /// It will never be known whether the broker has it.
    void give_up(const Message& message);

    /// It came as a new message, not as a retransmission of its protocol.
    void receive(const Message& message, const Arrival& arrival);

    /// The receiver keeps no session, and the broker has known since this time that the receiver is
    /// away. Nothing: as far as the broker knows, the receiver is connected. Messages that come
    /// while it is away need not be kept, and may be lost with its connection.
    void keep_no_session(std::uint16_t receiver, std::optional<Time> known_away_since);

    /// A member of a group has been connected since then; `Time()`: it is not connected. If a
    /// member has received a shared message and is still connected, no other member may get it.
    void attend(std::uint16_t member, Time since) { members_[member] = since; }

    /// The client is gone, and its will may arrive from `due` on; before that, it is early.
    void begin_will(const Message& will, Time due);
    /// The will must not arrive: the client sent DISCONNECT, or came back in time.
    void take_back(const Message& will, Time now);

    /// The broker's clock was put forward or back. Messages that were sent before are not early or
    /// outdated if the step may be the cause.
    void step_clock(Duration by, Time now);

    /// This program stood still until now. Messages that it reads next may have arrived during that
    /// time.
    void stall(Duration length, Time now) { stalls_.add(now, length); }
    /// How much of a delay that is seen now may be caused by this program.
    Duration own_delay(Time now) const { return stalls_.before(now); }

    /// The last value that the broker has acknowledged; 0: none. A new subscriber must get it or
    /// a later one.
    std::map<Stream, std::uint32_t> acknowledged_values() const;
    /// A new subscriber got this value, or 0 for none, and `least` was acknowledged before.
    void read_value(const Message& value, std::uint32_t least, Time now);

    /// The broker forgot a session that it had confirmed.
    void lose_session(const std::string& client, Time now);
    /// Its old session is gone: messages that were delivered before may arrive again after newer
    /// ones.
    void begin_order_anew(std::uint16_t receiver);
    /// Any other fault of a broker, in words.
    void note_fault(const std::string& what, Time now);

    const Counts& counts(Kind kind) const { return counts_[static_cast<std::size_t>(kind)]; }
    std::uint64_t sessions_lost() const { return sessions_lost_; }
    /// Messages that nobody has sent, messages to a wrong receiver, and breaches of the protocol.
    std::uint64_t other_faults() const { return other_faults_; }

    /// Acknowledged messages that nobody has received so far.
    std::uint64_t missing() const;
    Time last_arrival() const { return last_arrival_; }
    /// When the last delayed message is due.
    Time last_due() const { return last_due_; }

    /// The first ten faults of each sort.
    std::vector<Fault> faults() const;

private:
    enum class Outcome : std::uint8_t { open, acknowledged, refused, unknown, taken_back };
    struct Entry {
        Time sent{};
        Time acknowledged{};
        Time due{};
        Duration delay{};
        Duration lifetime{};
        std::uint32_t times_received = 0;
        Outcome outcome = Outcome::open;
        bool sent_again = false;
        bool promised = false;  ///< must come
    };
    struct StreamRecord {
        std::vector<Entry> entries;  ///< number 1 comes first
        std::uint32_t latest =
            0;  ///< number of the latest that was received or, of values, acknowledged
    };

    Counts& of(const Message& message) {
        return counts_[static_cast<std::size_t>(message.stream.kind)];
    }
    Entry* find(const Message& message);
    void describe_fault(const char* sort, const std::string& what, Time at);
    bool is_promised(const Message& message, const Entry& entry) const;
    bool is_wrong_repetition(const Message& message, const Entry& entry,
                             const Arrival& arrival) const;
    void judge_order(const Message& message, Time now);
    void judge_early(const Message& message, const Entry& entry, Time now);
    void judge_late(const Message& message, const Entry& entry, const Arrival& arrival);
    void judge_outdated(const Message& message, const Entry& entry, const Arrival& arrival);
    void note_unwanted(const Message& will, Time now);

    std::map<Stream, StreamRecord> streams_;
    std::array<Counts, all_kinds.size()> counts_;
    std::uint64_t sessions_lost_ = 0;
    std::uint64_t other_faults_ = 0;
    Time last_arrival_{};
    Time last_due_{};
    Time put_forward_{};  ///< the broker's clock, the last time
    Time put_back_{};
    load::Stalls stalls_;
    struct Holder {
        std::uint16_t member = 0;
        Time connected_since{};
    };
    std::map<Message, Holder> holders_;  ///< of shared messages: the first to get each
    std::map<std::uint16_t, std::optional<Time>> known_away_since_;  ///< without a session
    std::map<std::uint16_t, Time> members_;             ///< since when each has been connected
    std::map<std::string, std::vector<Fault>> faults_;  ///< by sort
};

/// How early a delayed message may arrive, because clocks that are read in two places differ.
constexpr Duration early_tolerance = std::chrono::milliseconds(10);

/// A delayed message is late if it comes later than this after it was due, and its receiver there.
constexpr Duration late_after = std::chrono::seconds(1);

/// A message is outdated if it comes later than this after its expiry: brokers count in seconds.
constexpr Duration outdated_after = std::chrono::seconds(1);

/// No run is this long, even with the steps of its clock: messages with a longer lifetime must
/// arrive.
constexpr Duration outlives_the_run = std::chrono::hours(12);

}  // namespace pulsegate::kill
