#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "loadgen/measure/measurements.h"
#include "loadgen/observe/description.h"

namespace pulsegate::load {

/// Measures the visible state of the server and of this machine once a second during a run, on its
/// own thread.
class Observer {
public:
    struct Options {
        std::string host;        ///< of the server
        std::uint16_t port = 0;  ///< that it listens on; 0: unknown
        std::uint32_t pid = 0;   ///< id of its process; 0: the process that listens on `port`, if
                                 ///< the host is loopback
        std::string metrics;     ///< "http://127.0.0.1:8080/metrics"; "": none
    };

    explicit Observer(Options options);
    ~Observer();

    /// The levels of the last second: `Gauge::server_...` and `Gauge::machine_...`, as far as they
    /// are visible. Each second's levels are returned only once, so that they are not counted
    /// twice.
    Measurements take_levels();

    ServerDescription server() const;

private:
    void run();

    const Options options_;
    mutable std::mutex mutex_;
    std::condition_variable wake_;
    bool stopped_ = false;
    Measurements levels_;
    ServerDescription server_;
    std::thread thread_;  // last, because it uses the other members
};

}  // namespace pulsegate::load
