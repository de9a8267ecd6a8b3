#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "loadgen/client/mqtt_client.h"
#include "tests/support/lab_peer.h"

namespace pulsegate {

/// Writes down what happens to a client, a line for each.
struct ClientDiary : load::ClientOwner {
    std::vector<std::string> lines;
    load::Ending::By by{};
    load::Stage stage{};
    std::function<void(load::MqttClient&)> on_received = [](load::MqttClient&) {};
    std::function<void(Connect&)> on_login = [](Connect&) {};
    std::vector<std::uint64_t> taken_over_tags;

    void opened(load::MqttClient&, load::Time) override { lines.emplace_back("opened"); }
    void logs_in(const load::MqttClient&, Connect& packet) override { on_login(packet); }
    void connected(load::MqttClient&, bool session_present, load::Time) override {
        lines.emplace_back(session_present ? "resumed" : "connected");
    }
    void subscribed(load::MqttClient&, std::size_t first, std::span<const Reason> reasons,
                    load::Time) override {
        std::string line = "subscribed";
        if (first > 0) line += " from " + std::to_string(first);
        for (const Reason reason : reasons) line.append(" ").append(name(reason));
        lines.push_back(line);
    }
    void received(load::MqttClient& client, const Publish& message, load::Time) override {
        lines.push_back("received " + std::string(message.topic) + "=" +
                        std::string(message.payload));
        on_received(client);
    }
    void received_again(load::MqttClient&, const Publish& message, bool is_same,
                        load::Time) override {
        lines.push_back((is_same ? "again " : "another ") + std::string(message.payload));
    }
    void overtaken(load::MqttClient&, std::uint64_t tag, load::Time) override {
        lines.push_back("overtaken " + std::to_string(tag));
    }
    void taken_over(load::MqttClient&, std::uint64_t tag, load::Time) override {
        taken_over_tags.push_back(tag);
    }
    void acknowledged(load::MqttClient&, std::uint64_t tag, Reason reason, load::Time sent,
                      load::Time now) override {
        CHECK(sent <= now);
        lines.push_back("acknowledged " + std::to_string(tag) + " " + std::string(name(reason)));
    }
    void in_doubt(load::MqttClient&, std::uint64_t tag) override {
        lines.push_back("in doubt " + std::to_string(tag));
    }
    void ping_answered(load::MqttClient&, load::Time sent, load::Time now) override {
        CHECK(sent <= now);
        lines.emplace_back("pong");
    }
    void closed(load::MqttClient& client, const load::Ending& ending, load::Time) override {
        CHECK(client.stage() == load::Stage::away);
        by = ending.by;
        stage = ending.stage;
        lines.push_back("closed: " + std::string(ending.cause));
    }
};

using Lines = std::vector<std::string>;

/// A client, and the connection of the scripted server that it has.
struct Talk {
    LabPeer peer;
    load::Loop loop;
    LabRun run{loop};
    ClientDiary diary;
    load::ClientHost host{loop, diary};
    load::ClientProfile profile;
    load::MqttClient client{host, profile, 7};
    std::vector<LabConnection> connections;

    explicit Talk(Version version = Version::v3_1_1, bool kept_session = false) {
        profile.endpoints.push_back({peer.address(), "localhost", peer.port()});
        profile.version = version;
        profile.kept_session = kept_session;
    }

    LabConnection& other() { return connections.back(); }

    /// Until the CONNECT has come, which is returned.
    std::string connect() {
        client.connect(load::Clock::now());
        const bool sent = run.until([this] { return client.stage() == load::Stage::logging_in; });
        REQUIRE(sent);
        connections.push_back(peer.accept());
        return other().read(client.connect_packet().size());
    }

    void log_in(std::string_view connack = "20 r 00 00") {
        connect();
        other().write(wire(connack));
        const auto lines = diary.lines.size();
        REQUIRE(run.until([&] { return diary.lines.size() > lines; }));
    }

    /// What the server sends, and what the owner is told then.
    void send(std::string_view notation, const Lines& told) {
        diary.lines.clear();
        other().write(wire(notation));
        run.until([&] { return diary.lines.size() >= told.size(); });
        run.settle();
        CHECK(diary.lines == told);
    }

    bool publish(std::string_view topic, std::string_view payload, QoS qos, std::uint64_t tag) {
        return client.publish({.qos = qos, .topic = topic, .payload = payload}, tag);
    }

    void expect(std::string_view notation) {
        run.settle();
        const std::string bytes = wire(notation);
        CHECK(hex(other().read(bytes.size())) == hex(bytes));
    }

    void expect_nothing() {
        run.settle();
        CHECK(hex(other().waiting()) == "");
    }

    void vanish() {
        const auto lines = diary.lines.size();
        other().close();
        REQUIRE(run.until([&] { return diary.lines.size() > lines; }));
    }
};

}  // namespace pulsegate
