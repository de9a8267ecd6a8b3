#pragma once

#include <cstdint>
#include <optional>

#include "loadgen/truth/numbers.h"
#include "loadgen/truth/send_times.h"
#include "loadgen/truth/sent_flow.h"
#include "protocol/bytes.h"

namespace pulsegate::load {

/// The data about a flow that the sender's worker sends to the receivers' workers at the end.
struct FlowTotal {
    std::uint32_t sender = 0;
    std::uint16_t slot = 0;
    std::uint32_t sent = 0;
    Numbers in_doubt{};
    Numbers sent_again{};
    SendTimes times{};

    static FlowTotal of(std::uint32_t sender, std::uint16_t slot, const SentFlow& flow);
};

void put(const FlowTotal& total, Buffer& out);

/// Takes a total from the front of `in`; nothing if there is none.
[[nodiscard]] std::optional<FlowTotal> take_flow_total(Bytes& in);

}  // namespace pulsegate::load
