#pragma once

#include <cstdint>
#include <optional>

#include "loadgen/torture/client.h"

namespace pulsegate::torture {

/// Breaks its connection again and again, so that its will is published. A will is promised if the
/// broker lived on for a while after that.
class WillClient final : public Client {
public:
    WillClient(Scene& scene, std::uint16_t number, Version version);

    void begin() { begun_ = true; }
    /// One that is connected still breaks its connection.
    void finish() { begun_ = false; }
    /// Whether the broker had seen the connection break is not known.
    void broker_was_killed() { broken_at_ = {}; }
    bool idle() const { return !online() && broken_at_ == Time(); }

private:
    void on_login(const Connack& connack) override;
    void on_packet(const Packet&) override {}
    void work(Time now) override;
    std::optional<std::pair<std::string, std::string>> will() override;

    const std::uint16_t number_;
    bool begun_ = false;
    Message will_;
    Time break_at_{};
    Time broken_at_{};  ///< zero: no will is waited for
};

}  // namespace pulsegate::torture
