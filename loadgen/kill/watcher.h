#pragma once

#include <cstdint>

#include "loadgen/kill/client.h"

namespace pulsegate::kill {

/// Subscribes to everybody's presence, with a kept or a clean session, and is connected all the
/// time or comes and goes.
class Watcher final : public Client {
public:
    Watcher(RunContext& context, std::uint16_t number, Version version);

    void start() { want_connection(true); }
    void live_as_it_likes() { as_it_likes_ = comes_and_goes_; }
    void stay();

private:
    void on_login(bool session_present) override;
    void received(load::MqttClient&, const Publish& publish, Time now) override;
    void on_end() override { context().presence.end_watching(id()); }
    void work(Time now) override;

    const bool keeps_session_;
    const bool comes_and_goes_;
    bool is_subscribed_ = false;
    bool as_it_likes_ = false;
    bool there_ = true;
    Time change_at_{};
};

}  // namespace pulsegate::kill
