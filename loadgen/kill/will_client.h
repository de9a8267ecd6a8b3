#pragma once

#include <cstdint>
#include <optional>

#include "loadgen/kill/client.h"
#include "loadgen/kill/will_loss.h"

namespace pulsegate::kill {

/// Loses its connection again and again, or sends DISCONNECT, and comes back before or after the
/// delay of its will has passed. Tells the MessageChecker which wills must arrive, and which must
/// not.
class WillClient final : public Client {
public:
    WillClient(RunContext& context, std::uint16_t number, Version version);

    void begin() { begun_ = true; }
    /// Ends with a will that must arrive, so that even a short run on a slow machine judges some
    /// wills.
    void finish() { finishing_ = true; }
    bool idle() const { return !begun_ && offline() && !loss_; }

    void broker_ended(BrokerEnd how, Time now);
    void edge_killed(std::uint16_t place, Time now);
    void broker_serves(const BrokerStart& start, Time now);

private:
    void on_login(bool session_present) override;
    void on_end() override;
    void work(Time now) override;
    std::optional<LastWill> will() override;

    void lose(Time now, bool goodbye);
    void settle(Time now);

    const std::uint16_t number_;
    bool begun_ = false;
    bool finishing_ = false;
    WillLoss::Connection connection_;  ///< the latest attempt
    Time end_at_{};
    std::optional<WillLoss> loss_;  ///< of the connection before, until its promise is known
    Time return_at_{};
};

}  // namespace pulsegate::kill
