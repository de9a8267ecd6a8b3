#include "server/session/flow.h"

#include <algorithm>
#include <iterator>

namespace pulsegate {

namespace {

constexpr std::uint16_t after(std::uint16_t id) {
    return id == 65'535 ? 1 : static_cast<std::uint16_t>(id + 1);
}

/// Steps from one identifier to the other, 1 to 65,535.
constexpr std::uint16_t distance(std::uint16_t from, std::uint16_t to) {
    return static_cast<std::uint16_t>(to > from ? to - from : 65'535 - from + to);
}

}  // namespace

Flow::List::iterator Flow::find(std::uint16_t packet_id) {
    return std::find_if(sent.begin(), sent.end(),
                        [&](const InFlight& entry) { return entry.packet_id == packet_id; });
}

std::uint16_t Flow::next_packet_id(std::uint16_t last) {
    // Looked for once in a while, not for each message: new ones leave the ids ahead as they are.
    while (free_ahead_ == 0) {
        std::uint16_t nearest = 65'535;
        for (const List* list : {&sent, &interrupted})
            for (const InFlight& entry : *list)
                nearest = std::min(nearest, distance(last, entry.packet_id));
        free_ahead_ = static_cast<std::uint16_t>(nearest - 1);
        if (free_ahead_ == 0) last = after(last);
    }
    --free_ahead_;
    return after(last);
}

void Flow::interrupt() {
    // What is still to be sent again after an earlier interruption is younger.
    const auto younger = interrupted.begin();
    for (auto entry = sent.begin(); entry != sent.end();) {
        const auto next = std::next(entry);
        if (!entry->released) interrupted.splice(younger, sent, entry);
        entry = next;
    }
}

}  // namespace pulsegate
