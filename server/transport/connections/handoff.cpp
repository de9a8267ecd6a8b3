#include "server/transport/connections/handoff.h"

#include <utility>

#include "server/transport/handshakes/connection_extras.h"

namespace pulsegate {

Handoff::Handoff(UniqueFd accepted, std::unique_ptr<ConnectionExtras> wrapped, Origin from,
                 ConnectionCounts counted)
    : socket(std::move(accepted)), extras(std::move(wrapped)), origin(from), counts(counted) {}

Handoff::Handoff(Handoff&&) noexcept = default;

Handoff::~Handoff() {
    if (socket) counts.closed(origin.address);
}

}  // namespace pulsegate
