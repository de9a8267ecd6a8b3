#include "server/session/session.h"

#include <algorithm>

namespace pulsegate {

std::uint16_t Session::next_packet_id() {
    const auto in_flight = [this](std::uint16_t id) {
        return outflow &&
               std::find(outflow->sent.begin(), outflow->sent.end(), id) != outflow->sent.end();
    };
    do {
        if (++last_packet_id == 0) last_packet_id = 1;
    } while (in_flight(last_packet_id));
    return last_packet_id;
}

}  // namespace pulsegate
