#pragma once

#include <string>

#include "loadgen/fleet.h"
#include "loadgen/plan.h"

namespace pulsegate::load {

/// The live line of a run, on standard error: a bar redrawn in place on a terminal, a plain line
/// every five seconds elsewhere.
class Progress {
public:
    explicit Progress(const Plan& plan);
    ~Progress();

    void show(const Fleet::Glance& glance);

private:
    void begin(Fleet::Phase phase);
    std::string line(const Fleet::Glance& glance);
    std::string ramping(const Fleet::Glance& glance) const;
    std::string running(const Fleet::Glance& glance);
    void finish_line();

    const Plan& plan_;
    const bool terminal_;
    std::string line_;
    bool line_is_out_ = true;
    Fleet::Phase phase_ = Fleet::Phase::ramping;
    Time next_line_{};
    Time last_look_{};
    std::uint64_t last_packets_ = 0;
    double packet_rate_ = 0;
};

}  // namespace pulsegate::load
