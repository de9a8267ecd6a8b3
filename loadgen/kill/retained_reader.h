#pragma once

#include <cstdint>
#include <map>

#include "loadgen/kill/client.h"

namespace pulsegate::kill {

/// Subscribes to all retained values as a new client, again and again. If the broker's end
/// interrupts a reading, the missing values are not judged.
class RetainedReader final : public Client {
public:
    RetainedReader(RunContext& context, Version version)
        : Client(context, "", version, Session::clean, short_keepalive) {}

    void begin();
    bool reading() const { return reading_; }

private:
    void on_login(bool session_present) override;
    void received(load::MqttClient&, const Publish& publish, Time now) override;
    void work(Time now) override;

    bool reading_ = false;
    std::uint32_t readings_ = 0;
    Time last_value_at_{};
    std::map<Stream, std::uint32_t> expected_;  ///< the least value that must still come
};

}  // namespace pulsegate::kill
