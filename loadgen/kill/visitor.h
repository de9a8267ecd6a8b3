#pragma once

#include <cstdint>

#include "loadgen/kill/client.h"

namespace pulsegate::kill {

/// Connects for a moment, again and again, so that its presence changes. If the broker ends
/// meanwhile, it is back soon or stays away for a while. Then the watchers' state of it must become
/// true without it.
class Visitor final : public Client {
public:
    Visitor(Scene& scene, std::uint16_t number, Version version);

    void begin() { visiting_ = true; }
    void finish() { visiting_ = false; }

private:
    void on_login(bool session_present) override;
    void on_end() override;
    void work(Time now) override;

    bool visiting_ = false;
    Time leave_at_{};
    Time return_at_{};
};

}  // namespace pulsegate::kill
