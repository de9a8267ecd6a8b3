#pragma once

#include <thread>

#include "server/base/files/unique_fd.h"

namespace pulsegate {

/// Ends the process on SIGTERM or SIGINT while it starts, with status 0 and without waiting for the
/// start, which may load data or wait for Redis for minutes. A start that ends so does no more
/// harm than one that is killed: nobody was let in, and the next start checks the data.
///
/// These signals must be blocked in all threads. One that comes when this object is destroyed is
/// still pending afterwards. So is one that this process has sent itself, for example because its
/// store has failed: the main thread knows what to do then.
class EarlyEnd {
public:
    EarlyEnd();
    ~EarlyEnd();
    EarlyEnd(const EarlyEnd&) = delete;
    EarlyEnd& operator=(const EarlyEnd&) = delete;

private:
    void await_signal() const;

    const UniqueFd signals_;
    const UniqueFd over_;  ///< readable: the start is over
    std::thread thread_;
};

}  // namespace pulsegate
