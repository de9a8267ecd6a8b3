#pragma once

#include <signal.h>

#include <stdexcept>

#include "loadgen/net/descriptor.h"

namespace pulsegate::load {

/// The user interrupted the run before there was anything to report.
struct Interrupted : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// SIGINT and SIGTERM as events of a descriptor. Create it before any thread.
class Interruption {
public:
    Interruption();
    ~Interruption();
    Interruption(const Interruption&) = delete;

    int fd() const { return signals_.get(); }

    /// Was there a signal? The second signal ends the process at once.
    bool take();

    static constexpr int exit_status = 130;

private:
    sigset_t others_{};  ///< the signals that were blocked before
    Descriptor signals_;
    bool taken_ = false;
};

}  // namespace pulsegate::load
