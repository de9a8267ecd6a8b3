#include "loadgen/truth/received_flow.h"

#include <algorithm>

namespace pulsegate::load {

ReceivedFlow::Arrival ReceivedFlow::arrive(std::uint32_t number, QoS qos, bool dup,
                                           std::uint32_t stay, Time settled,
                                           const ReadProof& proof) {
    if (number >= next_) {
        note_part(proof);
        if (number > next_) faults().gaps.push_back({next_, number, stay_, stay, settled});
        next_ = number + 1;
        stay_ = stay;
        return Arrival::first;
    }
    if (fill(number)) {
        note_part(proof);
        acknowledged_ = std::min(acknowledged_, number);
        return Arrival::behind;
    }

    // MQTT-4.4.0-1: a message that was not acknowledged on a connection is sent again on the next
    // one, before anything new, with DUP.
    const bool next_connection = stay != stay_;
    if (qos != QoS::at_least_once || !dup || !next_connection) return Arrival::again;
    forget_lost(proof);
    return number < acknowledged_ || proof.covers(part_) ? Arrival::again_acknowledged
                                                         : Arrival::again_allowed;
}

// What came in earlier parts than the last number is not kept. If one of its acknowledgements was
// lost, the server has sent it again before the last number, and it was acknowledged once more.
void ReceivedFlow::note_part(const ReadProof& proof) {
    if (part_ == proof.part()) return;
    forget_lost(proof);
    if (proof.covers(part_)) acknowledged_ = next_;
    part_ = proof.part();
}

// What is acknowledged anew after a crash has no proof of its own yet.
void ReceivedFlow::forget_lost(const ReadProof& proof) {
    if (!proof.trusts(part_)) acknowledged_ = 0;
}

bool ReceivedFlow::fill(std::uint32_t number) {
    if (!faults_) return false;
    auto& gaps = faults_->gaps;
    const auto gap = std::ranges::upper_bound(gaps, number, {}, &Gap::to);
    if (gap == gaps.end() || gap->from > number) return false;

    Gap rest = *gap;
    rest.from = number + 1;
    gap->to = number;
    const bool nothing_before = gap->from == gap->to;
    if (rest.from < rest.to)
        nothing_before ? void(*gap = rest) : void(gaps.insert(gap + 1, rest));
    else if (nothing_before)
        gaps.erase(gap);
    return true;
}

// The first number in the gap that had to be delivered; so had all later ones. The end of the gap
// if there is none.
std::uint32_t ReceivedFlow::first_owed(const FlowTotal& total, const Gap& gap,
                                       const Attendance& receiver, bool kept, Duration spread) {
    if (gap.before == gap.after) return gap.from;
    if (kept && gap.before > 0) return gap.from;
    // The server keeps nothing for a client that has never been connected.
    const Time since = kept ? receiver.first_settled() : gap.settled;
    if (since == Time::max()) return gap.to;
    return total.times.first_after(since + spread, gap.from, gap.to);
}

ReceivedFlow::Outcome ReceivedFlow::judge(const FlowTotal& total, const Attendance& receiver,
                                          bool kept, Duration spread) const {
    Outcome outcome;
    const std::uint32_t seen = std::min(next_, total.sent);
    outcome.received = seen;
    outcome.invented = next_ - seen;

    const auto missing = [&](Gap gap, bool may_still_come) {
        gap.to = std::min(gap.to, total.sent);
        if (gap.from >= gap.to) return;
        const auto count = [&](std::uint32_t from, std::uint32_t to) {
            const std::uint32_t in_doubt = total.in_doubt.count_in(from, to);
            outcome.in_doubt += in_doubt;
            return to - from - in_doubt;
        };
        const bool is_same_stay = gap.before == gap.after;
        const auto owed = may_still_come && !is_same_stay
                              ? gap.to
                              : first_owed(total, gap, receiver, kept, spread);
        if (const auto lost = count(owed, gap.to); lost > 0) {
            outcome.lost += lost;
            outcome.example = owed;
            while (total.in_doubt.contains(outcome.example)) ++outcome.example;
        }
        const auto missed = count(gap.from, owed);
        switch (receiver.cause_between(gap.before, gap.after)) {
            case Attendance::Cause::planned: outcome.missed_away += missed; return;
            case Attendance::Cause::closed: outcome.missed_closed += missed; return;
            case Attendance::Cause::starved: outcome.excused += missed; return;
        }
    };
    if (faults_)
        for (const Gap& gap : faults_->gaps) {
            outcome.received -= std::min(gap.to, seen) - std::min(gap.from, seen);
            outcome.invented -= std::max(gap.to, seen) - std::max(gap.from, seen);
            missing(gap, false);
        }
    const std::uint32_t last_stay = receiver.stay() + (receiver.there() ? 0 : 1);
    missing({next_, total.sent, stay_, last_stay, receiver.settled()}, !receiver.there());

    if (faults_)
        outcome.repeated = static_cast<std::uint32_t>(std::ranges::count_if(
            faults_->again, [&](auto number) { return !total.sent_again.contains(number); }));
    return outcome;
}

}  // namespace pulsegate::load
