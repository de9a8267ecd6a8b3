#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "loadgen/truth/attendance.h"
#include "loadgen/truth/flow_total.h"
#include "loadgen/truth/read_proof.h"
#include "protocol/packet.h"

namespace pulsegate::load {

/// The messages of one flow that one receiver got: which numbers are missing so far, and which came
/// too often. A flow without faults needs no further memory, and each gap needs 24 bytes.
class ReceivedFlow {
public:
    enum class Arrival : std::uint8_t {
        first,
        behind,              ///< the first time, but after a later one
        again_allowed,       ///< marked as a repetition, on another connection
        again,               ///< a fault, unless the sender repeated it: QoS 1 of a kept session
        again_acknowledged,  ///< likewise: marked, but the server had read its acknowledgement
    };

    /// `before` is the receiver's stay when the flow began.
    explicit ReceivedFlow(std::uint32_t before = 0) : stay_(before) {}

    /// `settled`: since when the receiver's subscriptions have been granted in this stay.
    /// `proof`: what the server has read of the receiver. The message is acknowledged after this
    /// call.
    Arrival arrive(std::uint32_t number, QoS qos, bool dup, std::uint32_t stay,
                   Time settled = Time::max(), const ReadProof& proof = {});

    /// Remembers an `again` that only the sender's total can judge.
    void remember_again(std::uint32_t number) { faults().again.push_back(number); }

    /// The result for the sent messages.
    struct Outcome {
        std::uint32_t received = 0;  ///< each counted once
        std::uint32_t lost = 0;
        std::uint32_t in_doubt = 0;
        std::uint32_t missed_away = 0;
        std::uint32_t missed_closed = 0;
        std::uint32_t excused = 0;
        std::uint32_t repeated = 0;  ///< faults among the remembered repetitions
        std::uint32_t invented = 0;  ///< received, but never sent

        /// A number that was lost, if there is one.
        std::uint32_t example = 0;
    };

    /// For this long after a SUBACK, other nodes of a cluster may not know the subscription yet.
    static constexpr Duration time_to_spread = std::chrono::seconds(5);

    /// `kept`: the server keeps such messages while the receiver is absent. `spread`: for how long
    /// after it has subscribed the receiver may miss messages.
    Outcome judge(const FlowTotal& total, const Attendance& receiver, bool kept,
                  Duration spread = time_to_spread) const;

private:
    /// The missing numbers [from, to), the receiver's stays when it got the neighbours, and when it
    /// settled in the later one.
    struct Gap {
        std::uint32_t from;
        std::uint32_t to;
        std::uint32_t before;
        std::uint32_t after;
        Time settled;
    };
    static_assert(sizeof(Gap) == 24);

    struct Faults {
        std::vector<Gap> gaps;  ///< in order
        std::vector<std::uint32_t> again;
    };

    Faults& faults() {
        if (!faults_) faults_ = std::make_unique<Faults>();
        return *faults_;
    }
    bool fill(std::uint32_t number);
    void note_part(const ReadProof& proof);
    void forget_lost(const ReadProof& proof);
    static std::uint32_t first_owed(const FlowTotal& total, const Gap& gap,
                                    const Attendance& receiver, bool kept, Duration spread);

    std::uint32_t next_ = 0;
    std::uint32_t stay_;              ///< stay in which the last new number came
    std::uint32_t part_ = 0;          ///< part of its `ReadProof`, likewise
    std::uint32_t acknowledged_ = 0;  ///< the server has read the answers to all numbers below it
    std::unique_ptr<Faults> faults_;
};

static_assert(sizeof(ReceivedFlow) <= 24);

}  // namespace pulsegate::load
