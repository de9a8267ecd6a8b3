#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "loadgen/client/mqtt_client.h"
#include "loadgen/kill/run_context.h"
#include "loadgen/time.h"
#include "protocol/packet.h"
#include "protocol/properties.h"

namespace pulsegate::kill {

/// One MQTT client, which reconnects soon as long as it wants to be connected. Derived classes
/// decide what it does with its connection.
class Client : load::ClientOwner {
public:
    enum class Session : std::uint8_t { kept, clean };

    /// `keepalive`: the broker waits one and a half times this long for it.
    Client(RunContext& context, std::string id, Version version, Session session,
           std::chrono::seconds keepalive = std::chrono::seconds(30));
    virtual ~Client() = default;
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    /// Called every few milliseconds.
    void tick(Time now);

    bool online() const;
    bool offline() const { return mqtt_.stage() == load::Stage::away; }
    /// Why the broker refused it, if it did.
    const std::string& refusal() const { return refusal_; }

protected:
    enum class Ending : std::uint8_t { disconnect, close, reset };

    void connect_as(std::string id) { id_ = std::move(id); }
    void want_connection(bool wanted) { wanted_ = wanted; }
    void end_connection(Ending how);
    void subscribe(const std::string& filter, QoS qos);
    /// It will acknowledge messages itself.
    void acknowledge_later() { profile_.owner_acknowledges = true; }

    struct LastWill {
        std::string topic;
        std::string payload;
        std::uint32_t delay = 0;  ///< seconds; 5.0 only
    };

    load::MqttClient& mqtt() { return mqtt_; }
    RunContext& context() { return context_; }
    Version version() const { return profile_.version; }
    /// Its client id, and its user's name.
    const std::string& id() const { return id_; }
    /// When its last login was accepted.
    Time online_since() const { return online_since_; }
    /// The silence after which the broker considers it gone.
    Duration limit() const { return Duration(profile_.keepalive) * 3 / 2; }

private:
    virtual void on_login(bool session_present) = 0;
    virtual void on_end() {}
    virtual void work(Time now) = 0;
    virtual std::optional<LastWill> will() { return {}; }

    // ClientOwner
    void logs_in(const load::MqttClient&, Connect& packet) final;
    void connected(load::MqttClient&, bool session_present, Time now) final;
    void closed(load::MqttClient&, const load::Ending& ending, Time now) final;
    void subscribed(load::MqttClient&, std::size_t, std::span<const Reason>, Time) override {}
    void received(load::MqttClient&, const Publish&, Time) override {}
    void acknowledged(load::MqttClient&, std::uint64_t, Reason, Time, Time) override {}
    void in_doubt(load::MqttClient&, std::uint64_t) override {}
    void ping_answered(load::MqttClient&, Time, Time) final {}

    void connect(Time now);
    void connection_ended(bool was_online, Time now);

    RunContext& context_;
    std::string id_;
    load::ClientProfile profile_;
    load::ClientHost host_;
    load::MqttClient mqtt_;
    bool wanted_ = false;
    std::uint16_t place_ = 0;  ///< the node that it connects to
    Time retry_at_{};
    Time give_up_at_{};
    Time pinged_at_{};
    Time online_since_{};
    std::string refusal_;
    std::optional<LastWill> will_;  ///< of its connection
    PropertyList will_properties_;
};

}  // namespace pulsegate::kill
