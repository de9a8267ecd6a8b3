#pragma once

#include <string>

#include "loadgen/kill/scene.h"

namespace pulsegate::kill {

/// The wall clock that the broker sees, if it is started with a library that reads the file: a line
/// as libfaketime wants it, such as "+7200". It is changed between two lives of the broker.
class BrokerClock {
public:
    BrokerClock(std::string file, Dice& dice) : file_(std::move(file)), dice_(dice) {}

    bool can_be_changed() const { return !file_.empty(); }
    /// Forward, back or not at all, by up to some hours; says by how much. Throws
    /// std::runtime_error if the file can't be written.
    Duration step();
    /// To a time later than any before, so that all is due that was to come by then.
    Duration step_to_latest();

private:
    Duration set(std::chrono::seconds ahead);

    const std::string file_;
    Dice& dice_;
    std::chrono::seconds ahead_{0};
};

}  // namespace pulsegate::kill
