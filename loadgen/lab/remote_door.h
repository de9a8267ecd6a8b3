#pragma once

#include <list>
#include <string>

#include "loadgen/lab/clock_offset.h"
#include "loadgen/lab/control_link.h"
#include "loadgen/lab/interruption.h"
#include "loadgen/net/descriptor.h"

namespace pulsegate::load {

struct RemoteWorkers;

/// Lets workers of other machines in who show the token. Who has not shown it yet can make us keep
/// little, and not for long.
class RemoteDoor {
public:
    struct Arrival {
        ControlLink link;
        std::string address;
        ClockOffset clock;
    };

    /// Throws `std::runtime_error` if the port can't be listened at.
    explicit RemoteDoor(const RemoteWorkers& remote);

    std::uint16_t port() const { return port_; }

    /// The next one with the token. Throws `std::runtime_error` when interrupted, or when nobody
    /// comes for long.
    Arrival next(Interruption& interruption);

private:
    struct Stranger {
        ControlLink link;
        std::string address;
        Time since;
        bool known = false;  ///< has shown the token
        int asked = 0;       ///< exchanges of clocks that were begun
        Time asked_at{};
        ClockOffset clock{};
    };

    bool has_room() const;
    void make_room();
    void let_in_strangers();
    bool hear(Stranger& stranger);
    bool hear_frame(Stranger& stranger, const Frame& frame);
    void ask_time(Stranger& stranger);

    const std::string token_;
    Descriptor listener_;
    std::uint16_t port_ = 0;
    std::list<Stranger> strangers_;
};

}  // namespace pulsegate::load
