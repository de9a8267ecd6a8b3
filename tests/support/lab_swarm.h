#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loadgen/swarm/swarm.h"
#include "tests/support/lab_peer.h"
#include "tests/support/patience.h"

namespace pulsegate {

/// A client of a swarm as its scripted server sees it, with short packets.
struct LabSwarmClient {
    LabConnection connection;
    std::string received{};              ///< not taken as packets yet
    std::string id{};                    ///< of its CONNECT
    std::string subscribe{};             ///< its SUBSCRIBE
    std::vector<std::string> filters{};  ///< of that

    void send(std::string_view notation) { connection.write(wire(notation)); }
};

/// The swarm of one worker, and the clients that have come to the scripted server.
class LabSwarm : load::Loop::Owner {
public:
    explicit LabSwarm(const load::Scenario& scenario, bool with_presence = false) {
        load::Assignment assignment;
        assignment.scenario = scenario;
        has_properties_ = scenario.groups.front().version == Version::v5_0;
        assignment.target.presence_topic = with_presence;
        assignment.target.servers.push_back(
            {.host = "127.0.0.1", .port = peer_.port(), .path = {}});
        swarm_ = std::make_unique<load::Swarm>(loop_, assignment);
        swarm_->start(load::Clock::now());
    }

    load::Swarm& swarm() { return *swarm_; }

    void until(std::function<bool()> condition) {
        condition_ = std::move(condition);
        deadline_ = load::Clock::now() + test_patience;
        holds_ = false;
        loop_.run(*this);
        REQUIRE(holds_);
    }

    /// Everything that has happened so far is handled.
    void settle() {
        int turns = 0;
        until([&] { return ++turns > 3; });
    }

    /// The next client, of which the CONNECT has come.
    LabSwarmClient& accept() {
        until([this] { return peer_.is_awaited(); });
        LabSwarmClient& client = clients_.emplace_back(LabSwarmClient{peer_.accept()});
        const std::string connect = packet_of(client);
        client.id = text_at(connect, behind_properties(connect, 12));
        return client;
    }

    /// Lets it in; of its SUBSCRIBE the SUBACK is still to come.
    void let_in(LabSwarmClient& client, std::string_view connack = "20 r 00 00") {
        client.send(connack);
        client.subscribe = packet_of(client);
        client.filters.clear();
        for (std::size_t at = behind_properties(client.subscribe, 4);
             at < client.subscribe.size();) {
            client.filters.push_back(text_at(client.subscribe, at));
            at += 2 + client.filters.back().size() + 1;
        }
    }

    /// Answers its SUBSCRIBE: these grants, and QoS 2 for the filters behind them.
    void grant(LabSwarmClient& client, std::string grants = {}) {
        grants.resize(client.filters.size(), '\2');
        if (has_properties_) grants.insert(0, 1, '\0');
        const auto length = static_cast<char>(grants.size() + 2);
        client.connection.write(std::string{'\x90', length} + client.subscribe.substr(2, 2) +
                                grants);
        settle();
    }

    LabSwarmClient& log_in() {
        LabSwarmClient& client = accept();
        let_in(client, has_properties_ ? "20 r 00 00 00" : "20 r 00 00");
        grant(client);
        return client;
    }

    /// Sends, and waits until the swarm has read it.
    void send(LabSwarmClient& client, std::string_view notation) {
        client.send(notation);
        settle();
    }

    std::string packet_of(LabSwarmClient& client) {
        const auto size = [&] {
            return client.received.size() < 2 ? std::string::npos
                                              : 2 + std::size_t(std::uint8_t(client.received[1]));
        };
        until([&] {
            client.received += client.connection.waiting();
            return client.received.size() >= size();
        });
        std::string packet = client.received.substr(0, size());
        client.received.erase(0, packet.size());
        return packet;
    }

    /// What was counted since the start.
    std::uint64_t count(load::Count count) {
        for (const auto& [second, measured] : swarm_->take_samples(load::Clock::now()))
            totals_.merge(measured);
        return totals_[count];
    }

private:
    load::Time turn(load::Time now, load::Duration late) override {
        const load::Time next = swarm_->turn(now, late);
        holds_ = condition_();
        if (holds_ || now > deadline_) loop_.stop();
        return std::min(next, now + std::chrono::milliseconds(1));
    }

    /// Where a packet goes on, if its properties would begin there. They are short.
    std::size_t behind_properties(const std::string& packet, std::size_t at) const {
        return has_properties_ ? at + 1 + std::size_t(std::uint8_t(packet.at(at))) : at;
    }

    static std::string text_at(const std::string& packet, std::size_t at) {
        const auto size =
            std::size_t(std::uint8_t(packet.at(at))) << 8 | std::uint8_t(packet.at(at + 1));
        return packet.substr(at + 2, size);
    }

    LabPeer peer_;
    load::Loop loop_;
    bool has_properties_ = false;
    std::unique_ptr<load::Swarm> swarm_;
    std::deque<LabSwarmClient> clients_;
    load::Measurements totals_;
    std::function<bool()> condition_ = [] { return true; };
    load::Time deadline_{};
    bool holds_ = false;
};

}  // namespace pulsegate
