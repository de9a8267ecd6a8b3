#pragma once

#include <cstddef>
#include <random>

#include "tests/support/crash_people.h"

namespace pulsegate {

class CrashPlay;

/// Chooses what happens in a CrashPlay without a script.
class RandomPeople {
public:
    /// `steps`: of the play.
    RandomPeople(CrashPlay& play, std::mt19937& random, int steps, bool has_guests)
        : play_(play), random_(random), steps_(steps), has_guests_(has_guests) {}

    /// Does the next one; the first is 0.
    void step(int number);

private:
    unsigned below(std::size_t bound) { return static_cast<unsigned>(random_() % bound); }
    bool chance(unsigned percent) { return below(100) < percent; }
    void request(CrashPerson who);
    void publish(CrashPerson who);
    void usual_subscription(CrashPerson who);

    CrashPlay& play_;
    std::mt19937& random_;
    const int steps_;
    const bool has_guests_;
};

}  // namespace pulsegate
