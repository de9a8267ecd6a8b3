#pragma once

#include <cstdint>
#include <map>

#include "loadgen/measure/measurements.h"

namespace pulsegate::load {

/// Sees to it that a worker tells the gauges of each second once, when the second is over: what
/// the coordinator gets of one second, it adds up.
class LevelHolder {
public:
    /// Takes the gauges out of what is measured, and puts those of seconds before `current` back.
    void hold(std::map<std::uint32_t, Measurements>& seconds, std::uint32_t current) {
        for (auto& [second, measured] : seconds) move(measured, held_[second]);
        while (!held_.empty() && held_.begin()->first < current) {
            auto [second, levels] = *held_.begin();
            held_.erase(held_.begin());
            if (!levels.empty()) move(levels, seconds[second]);
        }
    }

private:
    static void move(Measurements& from, Measurements& to) {
        for (std::size_t at = 0; at < gauges_size; ++at) {
            const auto gauge = static_cast<Gauge>(at);
            if (from[gauge] < 0) continue;
            to.set(gauge, from[gauge]);
            from.set(gauge, -1);
        }
    }

    std::map<std::uint32_t, Measurements> held_;
};

}  // namespace pulsegate::load
