#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "loadgen/measure/measurements.h"
#include "loadgen/observe/description.h"

namespace pulsegate::load {

/// Looks once a second, from a thread of its own, at what can be seen of the server and of this
/// machine while a run goes on.
class Observer {
public:
    struct Options {
        std::string host;        ///< of the server
        std::uint16_t port = 0;  ///< that it listens on; 0: unknown
        std::uint32_t pid = 0;   ///< of its process; 0: who listens on `port`, if it is loopback
        std::string metrics;     ///< "http://127.0.0.1:8080/metrics"; "": none
    };

    explicit Observer(Options options);
    ~Observer();

    /// The levels of the last second: `Gauge::server_...` and `Gauge::machine_...`, as far as they
    /// can be seen. Each second's levels are given out once, lest they be counted twice.
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
    std::thread thread_;  // last: it uses the others
};

}  // namespace pulsegate::load
