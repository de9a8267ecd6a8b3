#pragma once

#include <cstdint>
#include <list>
#include <string>

#include "loadgen/lab/clock_offset.h"
#include "loadgen/lab/control_link.h"
#include "loadgen/net/descriptor.h"
#include "loadgen/net/interruption.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// Where the coordinator waits for workers on other machines.
struct RemoteWorkers {
    std::string host;  ///< to listen on; empty: all addresses
    std::uint16_t port = 0;
    std::string token;
    std::uint32_t count = 0;
};

/// Accepts workers on other machines that show the token. A caller without the token can use only
/// little memory, and not for long.
class WorkerListener {
public:
    struct Arrival {
        ControlLink link;
        std::string address;
        ClockOffset clock;
    };

    /// Throws `std::runtime_error` if it can't listen on the port.
    explicit WorkerListener(const RemoteWorkers& remote);

    std::uint16_t port() const { return port_; }

    /// Waits for the next worker with the token. Throws `std::runtime_error` when interrupted, or
    /// when no worker connects for a long time.
    Arrival next(Interruption& interruption);

private:
    struct Caller {
        ControlLink link;
        std::string address;
        Time since;
        bool known = false;  ///< has shown the token
        int asked = 0;       ///< number of clock exchanges that were begun
        Time asked_at{};
        ClockOffset clock{};
    };

    bool has_room() const;
    void make_room();
    void accept_some();
    bool hear(Caller& caller);
    bool hear_frame(Caller& caller, const Frame& frame);
    void ask_time(Caller& caller);

    const std::string token_;
    Descriptor listener_;
    std::uint16_t port_ = 0;
    std::list<Caller> connected_;
};

}  // namespace pulsegate::load
