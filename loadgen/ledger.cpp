#include "loadgen/ledger.h"

namespace pulsegate::load {

void Ledger::post(std::uint32_t sender, std::uint32_t receiver, Time planned, Time now,
                  Buffer& out) {
    const Stamp stamp{run_, next_++, planned, sender, receiver};
    under_way_.emplace(stamp.sequence, stamp);
    write(stamp, size_, out);
    ++counts_.sent;
    counts_.lag.add(now - planned);
    if (auto* period = periods_.of(planned)) period->lag.add(now - planned);
}

Ledger::Arrival Ledger::arrive(std::uint32_t receiver, Bytes payload, Time now) {
    const auto stamp = read_stamp(payload);
    const bool ours = stamp && payload.size() == size_ && stamp->run == run_ &&
                      stamp->receiver == receiver && stamp->sequence < next_;
    if (!ours) {
        ++counts_.misdirected;
        return Arrival::not_ours;
    }
    if (under_way_.erase(stamp->sequence) == 0) {
        ++counts_.duplicated;
        return Arrival::again;
    }
    ++counts_.received;
    const Duration took = now - stamp->planned;
    counts_.latency.add(took);
    if (auto* period = periods_.of(stamp->planned)) period->latency.add(took);
    return Arrival::first;
}

}  // namespace pulsegate::load
