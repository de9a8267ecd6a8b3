#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "protocol/decode.h"
#include "server/session/terms/homes.h"
#include "tests/support/broker_cluster.h"
#include "tests/support/wire.h"

namespace pulsegate {

/// A client that talks to a broker in packet notation (see wire.h).
class Caller {
public:
    Caller(BrokerCluster& cluster, std::string_view name)
        : cluster_(cluster), link_(Homes(cluster.shards()).shard_of(name)) {
        cluster.adopt(link_);
    }
    ~Caller() { lose(); }

    Caller& send(std::string_view notation) {
        const std::string bytes = wire(notation);
        Bytes rest = as_bytes(bytes);
        while (!rest.empty()) {
            const Frame frame = next_frame(rest, bytes.size());
            REQUIRE(frame.status == Frame::Status::complete);
            const Decoded decoded = decode(rest.first(frame.size), version_, Sender::client);
            REQUIRE(std::holds_alternative<Packet>(decoded));
            hand_in(std::get<Packet>(decoded));
            rest = rest.subspan(frame.size);
        }
        cluster_.end_turn();
        return *this;
    }

    Caller& expect(std::string_view notation) {
        CHECK(hex(link_.bytes) == hex(wire(notation)));
        link_.bytes.clear();
        return *this;
    }
    Caller& expect_nothing() { return expect(""); }

    /// The CONNACK, whatever it tells.
    Caller& read_pending() {
        REQUIRE(link_.bytes.starts_with('\x20'));
        link_.bytes.clear();
        return *this;
    }

    /// The reason code of the CONNACK.
    Reason login_answer() {
        const std::string bytes = std::exchange(link_.bytes, {});
        REQUIRE(bytes.starts_with('\x20'));
        return static_cast<Reason>(static_cast<std::uint8_t>(bytes.at(3)));
    }

    /// The node with its connection is gone.
    void lose_node() {
        link_.is_node_lost = true;
        cluster_.broker(link_.shard).lose_node(*link_.session);
        cluster_.end_turn();
    }

    /// Its node is out of reach for a moment, or within reach again.
    void set_cut_off(bool is_cut_off) { link_.is_node_away = is_cut_off; }

    void lose() {
        if (link_.ending) return;
        link_.end({Cause::connection_lost, Reason::success, "lost"});
        cluster_.end_turn();
    }

private:
    void hand_in(const Packet& packet) {
        Broker& broker = cluster_.broker(link_.shard);
        if (const auto* connect = std::get_if<Connect>(&packet)) {
            version_ = connect->version;
            broker.logins().login(link_, *connect, {}, cluster_.now);
        } else {
            broker.handle(*link_.session, packet, cluster_.now);
        }
    }

    BrokerCluster& cluster_;
    KeptLink link_;
    Version version_ = Version::v3_1_1;
};

}  // namespace pulsegate
