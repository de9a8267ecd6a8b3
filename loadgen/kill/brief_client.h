#pragma once

#include <cstdint>

#include "loadgen/kill/client.h"

namespace pulsegate::kill {

/// Connects for a moment, again and again, so that its presence changes. If the broker ends
/// meanwhile, it is back soon or stays away for a while. Then the watchers' state of it must become
/// true without it.
class BriefClient final : public Client {
public:
    BriefClient(RunContext& context, std::uint16_t number, Version version);

    void begin() { connects_ = true; }
    void finish() { connects_ = false; }

private:
    void on_login(bool session_present) override;
    void on_end() override;
    void work(Time now) override;

    bool connects_ = false;
    Time leave_at_{};
    Time return_at_{};
};

}  // namespace pulsegate::kill
