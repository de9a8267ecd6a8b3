#include "server/shard/client_drain.h"

#include <algorithm>
#include <chrono>

namespace pulsegate {

namespace {

constexpr Millis step_length = 100;

}  // namespace

void ClientDrain::begin(Millis over, const Ending& ending) {
    ends_ = monotonic_now() + over;
    ending_ = ending;
    step();
}

void ClientDrain::step() {
    const Millis left = std::max<Millis>(ends_ - monotonic_now(), 0);
    const auto steps = static_cast<std::size_t>(left / step_length + 1);
    const bool is_last = steps == 1;
    const std::size_t clients = transport_.connections_here();
    transport_.ask_to_leave((clients + steps - 1) / steps, ending_,
                            is_last ? Transport::Unanswered::leave : Transport::Unanswered::stay);
    rounds_.after(timer_, std::chrono::milliseconds(step_length), [this] { step(); });
}

}  // namespace pulsegate
