#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/packet.h"
#include "tests/support/broker_cluster.h"
#include "tests/support/delivery_model.h"

namespace pulsegate {

/// A client as a good MQTT library makes it: it remembers over connections what it must, repeats
/// what was not acknowledged, and uses the lowest packet identifier that is free, which is the
/// hardest for the gateway. It tells the model what it does and what it gets.
class DurableClient {
public:
    using Number = DeliveryModel::Number;

    static constexpr Millis limit = 45'000;  ///< of silence, by its keepalive

    struct Terms {
        std::string name;
        std::string user;
        Version version = Version::v5_0;
        bool keeps_session = true;
        std::uint16_t window = 65'535;  ///< its Receive Maximum
        bool is_newcomer = false;       ///< it comes late, as the first of its user
        bool is_guest = false;  ///< of the shared subscription: with what it gets, it may be lost
    };

    using Log = std::function<void(std::string)>;

    DurableClient(Terms terms, DeliveryModel& model, Log log)
        : terms_(std::move(terms)), model_(model), log_(std::move(log)) {}

    // -- connections
    void connect(BrokerCluster& cluster, bool clean, std::optional<Number> will = {});
    void disconnect();
    void lose_connection();
    /// The gateway dies. Its brokers may still refer to the connection, until `forget_links`.
    void crash();
    /// The same, but all that has happened is on the disk.
    void stop();
    /// It was not back before its limit of silence had passed since the start.
    void stay_away();
    bool awaits_will() const { return !awaited_wills_.empty(); }
    void forget_links() { links_.clear(); }
    /// Another process takes the place of its gateway, and has adopted its connection.
    std::optional<SessionRecord> describe(Millis now) const;
    void pass(BrokerCluster& cluster, const SessionRecord& record);
    /// Has it got a CONNACK, and is the connection there still?
    bool is_here() const { return has_connack_ && link_ && link_->session && !link_->ending; }
    bool has_been_here() const { return cluster_; }

    // -- requests, while it is here
    void subscribe(const std::string& filter, QoS qos);
    void unsubscribe(const std::string& filter);
    void publish(Number number, std::string topic);
    void publish_delayed(Number number, unsigned seconds);
    /// A delayed message of the same client.
    void cancel(Number number, QoS qos);

    // -- answers
    /// Reads what has come; false if nothing has.
    bool read();
    /// Sends the acknowledgements that are due.
    void acknowledge();
    bool acknowledges_at_once = true;
    /// What was sent so far is on the disk.
    void settle();

    const Terms& terms() const { return terms_; }
    bool is_idle() const { return sent_.empty() && due_.empty(); }
    std::size_t on_their_way() const { return sent_.size(); }
    /// Of PUBLISH packets, since the last call.
    std::size_t take_received() { return std::exchange(received_count_, 0); }
    /// Values that were retained when it subscribed, by topic.
    const std::map<std::string, Number>& retained() const { return retained_; }

private:
    /// Its own PUBLISH that is not completed.
    struct Sent {
        std::uint16_t packet_id = 0;
        std::string topic{};
        QoS qos = QoS::at_most_once;
        bool retain = false;
        std::string payload{};
        std::string delay_name{};
        std::optional<Number> number{};
        std::optional<Number> cancels{};
        bool is_received = false;  ///< PUBREC has come
    };

    void handle(const Packet& packet);
    void send(const Sent& publish, bool again);
    void send_again(Sent& publish, bool as_duplicate);
    void send_new(Sent publish);
    Sent made(Number number, std::string topic) const;
    std::uint16_t free_id() const;
    std::list<Sent>::iterator find(std::uint16_t packet_id);

    void read(const Packet& packet);
    void read(const Connack& connack);
    void read(const Publish& publish);
    void answered(std::uint16_t packet_id, Reason reason, bool completes);
    void go_on();
    void begin_anew();
    void discard_session();
    void forget_exchanges();
    void break_connection();
    void gone();
    void due(Packet packet);

    const Terms terms_;
    DeliveryModel& model_;
    const Log log_;
    BrokerCluster* cluster_ = nullptr;
    std::unique_ptr<KeptLink> link_;
    std::vector<std::unique_ptr<KeptLink>> links_;  ///< earlier ones
    bool clean_ = false;
    bool has_discarded_ = false;  ///< its session; the gateway may not have (MQTT 5.0, 3.2.2.1.1)
    bool has_connack_ = false;
    bool keeps_session_ = false;        ///< the present one
    std::optional<Number> asked_will_;  ///< of the CONNECT
    std::optional<Number> will_;
    bool will_is_certain_ = false;
    std::vector<Number> lost_wills_;  ///< of connections that are lost, which the disk may not know
    std::vector<Number> awaited_wills_;  ///< they come, if the client is not back in time
    std::list<Sent> sent_;
    std::map<std::uint16_t, Number> received_;  ///< QoS 2, up to PUBREL
    std::deque<Packet> due_;
    std::map<std::uint16_t, std::size_t> subscribing_;
    std::map<std::uint16_t, std::string> unsubscribing_;
    std::uint16_t last_request_ = 1000;
    std::size_t received_count_ = 0;
    std::map<std::string, Number> retained_;
};

/// The payload of a message.
std::string payload_of(DeliveryModel::Number number);

}  // namespace pulsegate
