#include "loadgen/kill/broker_clock.h"

#include <fmt/format.h>

#include <fstream>
#include <stdexcept>

namespace pulsegate::kill {

using namespace std::chrono_literals;

namespace {

constexpr std::chrono::seconds furthest = 3h;  // sessions of a day don't end by it

}  // namespace

void BrokerClock::step() {
    switch (random_.below(3)) {
        case 0:
            return set(ahead_ + std::chrono::duration_cast<std::chrono::seconds>(
                                    random_.between(0s, furthest - ahead_)));
        case 1:
            return set(ahead_ - std::chrono::duration_cast<std::chrono::seconds>(
                                    random_.between(0s, furthest + ahead_)));
        default: return set(ahead_);
    }
}

void BrokerClock::step_to_latest() { set(furthest); }

void BrokerClock::set(std::chrono::seconds ahead) {
    if (!can_be_changed()) return;
    std::ofstream file(file_);
    if (!(file << fmt::format("{:+}\n", ahead.count()) << std::flush))
        throw std::runtime_error(fmt::format("--clock '{}': can't be written", file_));
    ahead_ = ahead;
}

}  // namespace pulsegate::kill
