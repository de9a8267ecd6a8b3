#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/decode.h"
#include "server/session/terms/homes.h"
#include "tests/support/broker_cluster.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/ledger_model.h"
#include "tests/support/pumped_ledger.h"
#include "tests/support/quiet_log.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wire.h"

namespace pulsegate {

/// Brokers with a real store, which commits when the test says so. In a crash all else is lost.
class DurableCluster {
public:
    /// Without a store there is nothing to commit, and no crash.
    explicit DurableCluster(unsigned shards = 1, const BrokerSettings& settings = {},
                            bool has_store = true)
        : shards_(shards), settings_(settings) {
        if (has_store)
            start();
        else
            cluster_ = std::make_unique<BrokerCluster>(settings_, shards_);
    }
    ~DurableCluster() { cluster_.reset(); }

    BrokerCluster* operator->() { return cluster_.get(); }
    BrokerCluster& operator*() { return *cluster_; }
    FaultyDisk& disk() { return disk_; }
    /// Of the brokers' clock, also between two lives.
    Millis now() const { return cluster_ ? cluster_->now : now_; }

    /// Whatever shards have sent to one another, and to themselves, arrives.
    void deliver() {
        while (cluster_->has_messages()) {
            static_cast<void>(cluster_->deliver(cluster_->pairs_with_messages().front()));
            cluster_->end_turn();
        }
    }
    void deliver(BrokerCluster::Pair pair) {
        static_cast<void>(cluster_->deliver(pair));
        cluster_->end_turn();
    }
    /// Commits what was handed in, and nothing more.
    void commit() {
        if (ledger_) ledger_->commit(true);
    }
    /// The same without what may wait for a second.
    void commit_urgent() { ledger_->commit(false); }
    void settle() {
        do {
            deliver();
            commit();
        } while (cluster_->has_messages());
    }
    /// A crash, and what the next start finds.
    StoredState crash_and_read() {
        kill();
        StoredState stored;
        {
            SqliteLedger ledger(ledger_options());
            stored.read(ledger);
        }
        start();
        return stored;
    }
    void crash() {
        kill();
        start();
    }
    void kill() {
        disk_.fail_at(disk_.steps() + 1, FaultyDisk::Fault::kill);
        end();
        disk_.restart();
    }
    /// The gateway stops, as it does when it is told to.
    void stop(Broker::UsersAtStop users = Broker::UsersAtStop::go_offline) {
        cluster_->stop(users);
        commit();
        end();
    }
    void start() {
        ledger_ = std::make_unique<PumpedLedger>(ledger_options(), disk_);
        cluster_ = std::make_unique<BrokerCluster>(settings_, shards_, ledger_.get(), now_);
        ledger_->end_start();
    }
    /// The next start has another number of shards.
    void crash(unsigned shards) {
        shards_ = shards;
        crash();
    }
    /// The next start has other settings.
    void crash(const BrokerSettings& settings) {
        settings_ = settings;
        crash();
    }

private:
    SqliteLedger::Options ledger_options() {
        using namespace std::chrono_literals;
        return {.folder = folder_.path("data"),
                .patience = 0ms,
                .first_pause = 1ms,
                .vfs = disk_.vfs()};
    }
    void end() {
        now_ = cluster_->now;
        cluster_.reset();
        ledger_.reset();
    }

    const QuietLog quiet_;
    unsigned shards_;
    BrokerSettings settings_;
    Millis now_ = 1'000'500;  ///< when the next life begins
    const TemporaryFolder folder_;
    FaultyDisk disk_;
    std::unique_ptr<PumpedLedger> ledger_;
    std::unique_ptr<BrokerCluster> cluster_;
};

/// A client, of MQTT 3.1.1 and its own user unless told otherwise, in packet notation.
class PlainClient {
public:
    PlainClient(DurableCluster& cluster, std::string name) : PlainClient(cluster, name, name) {}
    PlainClient(DurableCluster& cluster, std::string name, std::string user,
                Version version = Version::v3_1_1)
        : cluster_(cluster), name_(std::move(name)), user_(std::move(user)), version_(version) {}

    /// Over another connection than before.
    void connect(bool clean) { connect(clean, clean ? 0 : 86'400); }
    /// `expiry`: of the session, in seconds, with 5.0.
    void connect(bool clean, unsigned expiry) { connect(clean, expiry, ""); }
    /// With a will of QoS 0 to the topic `will`, which says 'gone'; "": without.
    void connect(bool clean, unsigned expiry, const std::string& will) {
        const std::string flags = will.empty() ? clean ? " 02" : " 00" : clean ? " 06" : " 04";
        std::string properties = expiry == 0 ? "" : " 11 w" + std::to_string(expiry);
        if (receive_maximum != 0) properties += " 21 k" + std::to_string(receive_maximum);
        const std::string lasting = " [" + properties + " ]";
        const bool is_new = version_ == Version::v5_0;
        connect("10 r s'MQTT' " + std::string(is_new ? "05" : "04") + flags + " k60" +
                (is_new ? lasting : "") + " s'" + name_ + "'" +
                (will.empty() ? "" : payload_of_will(will)));
    }
    /// With this CONNECT.
    void connect(std::string_view notation) {
        KeptLink& link = links_.emplace_back(Homes(cluster_->shards()).shard_of(user_));
        cluster_->adopt(link);
        const std::string bytes = wire(notation);
        const auto decoded = decode(as_bytes(bytes), version_, Sender::client);
        home().logins().login(link, std::get<Connect>(std::get<Packet>(decoded)), {.user = user_},
                              cluster_->now);
        cluster_->end_turn();
    }
    void send(std::string_view notation) {
        const std::string bytes = wire(notation);
        const auto decoded = decode(as_bytes(bytes), version_, Sender::client);
        home().handle(*link().session, std::get<Packet>(decoded), cluster_->now);
        cluster_->end_turn();
    }
    void lose_connection() { end_connection(Cause::connection_lost); }
    /// The gateway asks it to leave.
    void drain() { end_connection(Cause::drained); }
    void end_connection(Cause cause) {
        link().end({cause, Reason::success, "test"});
        cluster_->end_turn();
    }
    /// What has come since the last call.
    std::string take() { return hex(std::exchange(link().bytes, {})); }

    struct Message {
        std::string text;
        QoS qos;
        std::uint16_t packet_id;
        bool dup;
        std::vector<std::uint32_t> identifiers{};  ///< of subscriptions
    };
    /// The messages in it; other packets are dropped.
    std::vector<Message> take_messages() {
        std::vector<Message> messages;
        const std::string bytes = std::exchange(link().bytes, {});
        for (Bytes rest = as_bytes(bytes); !rest.empty();) {
            const Bytes packet = rest.first(next_frame(rest, bytes.size()).size);
            rest = rest.subspan(packet.size());
            const auto decoded = decode(packet, version_, Sender::server);
            const auto* const publish = std::get_if<Publish>(&std::get<Packet>(decoded));
            if (publish) messages.push_back(message(*publish));
        }
        return messages;
    }
    KeptLink& link() { return links_.back(); }

    unsigned receive_maximum = 0;  ///< of the next CONNECT, with 5.0; 0: it states none

private:
    std::string payload_of_will(const std::string& topic) const {
        return (version_ == Version::v5_0 ? " [ ] s'" : " s'") + topic + "' s'gone'";
    }
    static Message message(const Publish& publish) {
        Message message{std::string(publish.payload), publish.qos, publish.packet_id, publish.dup};
        publish.properties.for_each([&](const PropertyValue& each) {
            if (each.id == Property::subscription_identifier)
                message.identifiers.push_back(each.number);
        });
        return message;
    }
    Broker& home() { return cluster_->broker(link().shard); }

    DurableCluster& cluster_;
    const std::string name_;
    const std::string user_;
    const Version version_;
    std::list<KeptLink> links_;
};

}  // namespace pulsegate
