#pragma once

#include <string>

#include "loadgen/kill/run_context.h"

namespace pulsegate::kill {

/// The wall clock that the broker sees, if it is started with a library that reads the file. The
/// file has a line in the format of libfaketime, such as "+7200". It is changed before a broker is
/// started.
class BrokerClock {
public:
    BrokerClock(std::string file, RandomChoices& random)
        : file_(std::move(file)), random_(random) {}

    bool can_be_changed() const { return !file_.empty(); }
    /// Forward, back or not at all, by up to some hours. Throws std::runtime_error if the file
    /// can't be written.
    void step();
    /// To a time later than any before, so that everything is due.
    void step_to_latest();

    /// How far the clock of a broker that is started now is ahead.
    Duration ahead() const { return ahead_; }

private:
    void set(std::chrono::seconds ahead);

    const std::string file_;
    RandomChoices& random_;
    std::chrono::seconds ahead_{0};
};

}  // namespace pulsegate::kill
