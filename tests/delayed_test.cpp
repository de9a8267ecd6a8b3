#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <string_view>

#include "tests/support/gateway.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/versions.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace {

/// A gateway with a clock in the middle of a second, which passes when the test says so.
struct Scene {
    explicit Scene(const std::function<void(Config&)>& adjust = {}) : gateway(adjust) {
        clock.advance(1500 - monotonic_now() % 1000);
    }

    /// Whatever the store was asked for by now has been answered, and so has what that has brought
    /// about: what was due is published, and deleted.
    void settle() const {
        Conversation asking(gateway);
        asking.login("asking");
        for (int round = 0; round < 2; ++round) {
            asking.send("32 r s'$delayed/cancel/nothing' k1").expect("40 02 k1");
            gateway.settle();
        }
    }
    void pass(Millis time) {
        gateway.pass(clock, time);
        settle();
    }

    Gateway gateway;
    StoppedClock clock;
};

/// Logged in, and subscribed to all topics at QoS 1.
Conversation subscriber(const Scene& scene, std::string_view name) {
    Conversation made(scene.gateway);
    made.login(name).send("82 r k1 s'#' 01").expect("90 03 k1 01");
    return made;
}

/// A 5.0 client that wants to know reasons.
Conversation inquirer(const Scene& scene, const std::string& name) {
    Conversation made(scene.gateway);
    made.send("10 r s'MQTT' 05 02 k10 [ 17 01 ] s'" + name + "'");
    made.packet();
    return made;
}

/// The PUBACK of a delayed message for a 5.0 client; returns its number.
std::string number_in(const std::string& puback) {
    const auto key = wire("s'delay'");
    const auto at = puback.find(key);
    REQUIRE(at != std::string::npos);
    return puback.substr(at + key.size() + 2);
}

}  // namespace

TEST_CASE("a delayed message comes when it is due, and not earlier") {
    for (const unsigned from : {0u, 1u})
        for (const unsigned to : {0u, 1u}) {
            Scene scene;
            Conversation receiver = subscriber(scene, at_home(to, "receiver"));
            Conversation sender(scene.gateway);
            sender.login(at_home(from, "sender"));
            sender.send("32 r s'$delayed/3/room/a' k1 'later'").expect("40 02 k1");
            scene.pass(3000);
            receiver.expect_nothing();
            scene.pass(1000);
            receiver.expect("32 r s'room/a' k1 'later'").send("40 02 k1").expect_nothing();
            scene.pass(2000);
            receiver.expect_nothing();
        }
}

TEST_CASE("a delay is a number of seconds, or a Unix time if that is larger") {
    Scene scene;
    Conversation receiver = subscriber(scene, "receiver");
    Conversation sender(scene.gateway);
    sender.login("sender");
    const auto soon = std::to_string(calendar_time(monotonic_now()) / 1000 + 2);
    sender.send("30 r s'$delayed/" + soon + "/unix' 'in two seconds'");
    sender.send("30 r s'$delayed/42949671/past' 'at once'");
    sender.send("30 r s'$delayed/0/now' 'at once'").expect_nothing();
    scene.settle();
    receiver.expect_nothing();
    scene.pass(1000);
    receiver.expect("30 r s'past' 'at once' | 30 r s'now' 'at once'").expect_nothing();
    scene.pass(1000);
    receiver.expect("30 r s'unix' 'in two seconds'").expect_nothing();
}

TEST_CASE("delayed messages come by their time, those of one second in the order of publishing") {
    Scene scene;
    Conversation receiver = subscriber(scene, "receiver");
    Conversation sender(scene.gateway);
    sender.login("sender");
    sender.send("30 r s'$delayed/2/x' '3' | 30 r s'$delayed/1/x' '1' | 30 r s'$delayed/1/x' '2'");
    sender.expect_nothing();
    scene.settle();
    scene.pass(4000);
    receiver.expect("30 r s'x' '1' | 30 r s'x' '2' | 30 r s'x' '3'").expect_nothing();
}

TEST_CASE("delayed messages of one second keep their order, whatever their QoS and retain flag") {
    Scene scene;
    Conversation receiver = subscriber(scene, "receiver");
    Conversation sender(scene.gateway);
    sender.login("sender");
    sender.send(
        "30 r s'$delayed/2/x' '1' | 32 r s'$delayed/2/x' k1 '2' | 31 r s'$delayed/2/x' '3' |"
        "30 r s'$delayed/2/x' '4'");
    sender.expect("40 02 k1").expect_nothing();
    scene.settle();
    scene.pass(4000);
    receiver.expect("30 r s'x' '1' | 32 r s'x' k1 '2' | 30 r s'x' '3' | 30 r s'x' '4'");
}

TEST_CASE("a delayed message keeps QoS, retain flag and properties, and its expiry begins late") {
    Scene scene;
    Conversation receiver(scene.gateway);
    receiver.login("receiver", v5).send("82 r k1 [ ] s'#' 0a").expect("90 r k1 [ ] 02");
    Conversation sender(scene.gateway);
    sender.login("sender", v5);
    sender.send("35 r s'$delayed/5/x' k1 [ 02 w3 03 s'text' 26 s'a' s'b' ] 'hello'");
    CHECK(sender.packet().substr(0, 1) == wire("50"));
    sender.send("62 02 k1").expect("70 02 k1");
    scene.pass(6000);
    receiver.expect("35 r s'x' k1 [ 02 w3 03 s'text' 26 s'a' s'b' ] 'hello'");
    Conversation late(scene.gateway);
    late.login("late").send("82 r k1 s'x' 00").expect("90 03 k1 00 | 31 r s'x' 'hello'");
}

TEST_CASE("the same user's message with the same delay-id is replaced") {
    Scene scene;
    Conversation receiver = subscriber(scene, "receiver");
    for (const auto* name : {"sender", "other"}) {
        Conversation sender(scene.gateway);
        sender.login(name, v5);
        for (const auto* text : {"first", "second"})
            sender.send(std::string("30 r s'$delayed/1/x' [ 26 s'delay-id' s'job' ] '") + text +
                        "'");
        sender.expect_nothing();
    }
    scene.settle();
    scene.pass(3000);
    receiver.expect("30 r s'x' 'second' | 30 r s'x' 'second'").expect_nothing();
}

TEST_CASE("a delayed message is cancelled by its number or name, by its user only") {
    Scene scene;
    Conversation receiver = subscriber(scene, "receiver");
    Conversation sender = inquirer(scene, "sender");
    sender.send("32 r s'$delayed/1/x' k1 [ ] 'one'");
    const auto number = number_in(sender.packet());
    sender.send("32 r s'$delayed/1/x' k2 [ 26 s'delay-id' s'a/job' ] 'two'");
    number_in(sender.packet());
    scene.settle();

    Conversation other(scene.gateway);
    other.login("other", v5);
    const auto none = "40 03 k5 10";
    other.send("32 r s'$delayed/cancel/" + number + "' k5 [ ]").expect(none);
    other.send("32 r s'$delayed/cancel/a/job' k5 [ ]").expect(none);
    other.send("34 r s'$delayed/cancel/a/job' k5 [ ]").expect("50 03 k5 10");
    sender.send("32 r s'$delayed/cancel/" + number + "' k5 [ ]").expect("40 02 k5");
    sender.send("32 r s'$delayed/cancel/" + number + "' k5 [ ]").expect(none);
    sender.send("34 r s'$delayed/cancel/a/job' k5 [ ]").expect("50 02 k5");
    scene.pass(3000);
    receiver.expect_nothing();
}

TEST_CASE("a cancellation right behind its message finds it") {
    Scene scene;
    Conversation receiver = subscriber(scene, "receiver");
    Conversation sender(scene.gateway);
    sender.login("sender", v5);
    for (const char* first : {"30", "32", "34"}) {
        CAPTURE(first);
        const bool answered = std::string_view(first) != "30";
        const std::string id = answered ? "k1" : "";
        sender.send(std::string(first) + " r s'$delayed/1/x' " + id +
                    " [ 26 s'delay-id' s'n' ] '!' | 32 r s'$delayed/cancel/n' k2 [ ]");
        if (answered) sender.packet();
        sender.expect("40 02 k2");
        if (first == std::string_view("34")) sender.send("62 02 k1").expect("70 02 k1");
    }
    scene.pass(3000);
    receiver.expect_nothing();
}

TEST_CASE("acknowledgements of delayed messages stay in the order of the packets") {
    Scene scene;
    Conversation sender(scene.gateway);
    sender.login("sender");
    sender.send(
        "32 r s'$delayed/9/x' k1 '!' | 32 r s'x' k2 '!' | 32 r s'$delayed/cancel/y' k3 |"
        "34 r s'$delayed/9/x' k4 '!' | 32 r s'x' k5 '!'");
    sender.expect("40 02 k1 | 40 02 k2 | 40 02 k3 | 50 02 k4 | 40 02 k5").expect_nothing();
}

TEST_CASE("the number of a delayed message is not told to clients that want no reasons") {
    Scene scene;
    Conversation sender(scene.gateway);
    sender.send("10 r s'MQTT' 05 02 k10 [ 17 00 ] s'p'");
    sender.packet();
    sender.send("32 r s'$delayed/1/x' k1 [ ] '!'").expect("40 02 k1");
    Conversation narrow(scene.gateway);
    narrow.send("10 r s'MQTT' 05 02 k10 [ 27 w40 ] s'q'");
    narrow.packet();
    narrow.send("32 r s'$delayed/1/x' k1 [ ] '!'").expect("40 02 k1");
}

TEST_CASE("delayed messages that can't be are refused, with the reason") {
    Scene scene;
    Conversation sender(scene.gateway);
    sender.send("10 r s'MQTT' 05 02 k10 [ 17 00 ] s'p'");
    sender.packet();
    for (const auto* topic :
         {"$delayed/", "$delayed/5", "$delayed/5/", "$delayed/x/a", "$delayed/-1/a", "$delayed//a",
          "$delayed/4294967296/a", "$delayed/99999999999999999999999/a", "$delayed/5x/a"}) {
        CAPTURE(topic);
        sender.send("32 r s'" + std::string(topic) + "' k1 [ ]").expect("40 03 k1 90");
    }
    for (const auto* topic : {"$delayed/5/presence/p", "$delayed/5/$SYS/x",
                              "$delayed/5/$delayed/5/x", "$delayed", "$delayedx/5/x"}) {
        CAPTURE(topic);
        sender.send("32 r s'" + std::string(topic) + "' k1 [ ]").expect("40 03 k1 87");
    }
    for (const auto* name : {"s''", "s'12'", "s'a+'", "s'#'"}) {
        CAPTURE(name);
        sender.send("32 r s'$delayed/5/x' k1 [ 26 s'delay-id' " + std::string(name) + " ]")
            .expect("40 03 k1 83");
    }
    Conversation older(scene.gateway);
    older.login("older").send("32 r s'$delayed/x/a' k1").expect("40 02 k1").expect_nothing();
    CHECK(scene.gateway.has_logged("it is not $delayed/{seconds or Unix time}/{topic}"));
}

TEST_CASE("delayed messages are limited, for a user and for all") {
    const auto fill = [](const std::function<void(Config&)>& limit, const char* named,
                         bool others_may) {
        Scene scene(limit);
        Conversation sender = inquirer(scene, "sender");
        sender.send("30 r s'$delayed/9/x' [ ] '!' | 30 r s'$delayed/9/x' [ ] '!'").expect_nothing();
        scene.settle();
        sender.send("32 r s'$delayed/9/x' k1 [ ] '!'");
        const auto refusal = sender.packet();
        CHECK(refusal.substr(4, 1) == wire("97"));
        CHECK(refusal.find(named) != std::string::npos);
        Conversation other = inquirer(scene, "other");
        other.send("32 r s'$delayed/9/x' k1 [ ] '!'");
        CHECK((other.packet().substr(4, 1) == wire("00")) == others_may);
        scene.pass(5000);
        sender.send("c0 00").expect("d0 00");
        scene.pass(5000);
        sender.send("32 r s'$delayed/9/x' k1 [ ] '!'");
        CHECK(sender.packet().substr(4, 1) == wire("00"));
    };
    fill([](Config& config) { config.max_delayed_messages_per_user = 2; },
         "max-delayed-messages-per-user", true);
    fill([](Config& config) { config.max_delayed_bytes_per_user = 100; },
         "max-delayed-bytes-per-user", true);
    fill([](Config& config) { config.max_delayed_messages = 2; }, "max-delayed-messages", false);
    fill([](Config& config) { config.max_delayed_bytes = 100; }, "max-delayed-bytes", false);
}

TEST_CASE("more delayed messages than are taken at a time are all published, in their order") {
    constexpr int many = 1200;
    Scene scene;
    Conversation receiver(scene.gateway);
    receiver.login("receiver").send("82 r k1 s'x' 00").expect("90 03 k1 00");
    Conversation sender(scene.gateway);
    sender.login("sender");
    std::string sent;
    for (int i = 0; i < many; ++i) sent += wire("30 r s'$delayed/1/x' '" + std::to_string(i) + "'");
    sender.send_bytes(sent).expect_nothing();
    scene.settle();
    scene.pass(2000);
    for (int i = 0; i < many; ++i)
        REQUIRE(published(receiver.packet()).payload == std::to_string(i));
    receiver.expect_nothing();
}

TEST_CASE("delayed messages that are due in one second come at a limited rate") {
    constexpr int a_second = 8000;
    Scene scene([](Config& config) { config.max_message_rate = 0; });
    Conversation receiver(scene.gateway);
    receiver.login("receiver").send("82 r k1 s'x' 00").expect("90 03 k1 00");
    Conversation sender(scene.gateway);
    sender.login("sender");
    std::string sent;
    for (int i = 0; i < a_second + 9; ++i) sent += wire("30 r s'$delayed/1/x'");
    sender.send_bytes(sent).expect_nothing();
    scene.settle();
    scene.pass(2000);
    for (int i = 0; i < a_second; ++i) REQUIRE(receiver.packet() == wire("30 r s'x'"));
    scene.settle();
    receiver.expect_nothing();
    scene.pass(1000);
    for (int i = 0; i < 9; ++i) REQUIRE(receiver.packet() == wire("30 r s'x'"));
    receiver.expect_nothing();
}

TEST_CASE("a message comes in time though others have filled its second") {
    constexpr int many = 5000;
    Scene scene([](Config& config) { config.max_message_rate = 0; });
    Conversation receiver(scene.gateway);
    receiver.login("receiver").send("82 r k1 s'bobs' 00").expect("90 03 k1 00");
    std::string sent;
    for (int i = 0; i < many; ++i) sent += wire("30 r s'$delayed/1/x'");
    for (const auto* mal : {"mal1", "mal2", "mal3"}) {
        Conversation sender(scene.gateway);
        sender.login(mal);
        sender.send_bytes(sent).expect_nothing();
    }
    Conversation bob(scene.gateway);
    bob.login("bob").send("32 r s'$delayed/1/bobs' k1 '!'").expect("40 02 k1");
    scene.settle();
    scene.pass(2000);
    receiver.expect("30 r s'bobs' '!'");
}

TEST_CASE("a client that may not publish to a topic may not publish a delayed message to it") {
    const TemporaryFolder folder;
    folder.write("rules", "allow readwrite room/#\n");
    Scene scene([&](Config& config) { config.authenticator.access_file = folder.path("rules"); });
    Conversation sender(scene.gateway);
    sender.send("10 r s'MQTT' 05 02 k10 [ 17 00 ] s'p'");
    sender.packet();
    sender.send("32 r s'$delayed/5/room/a' k1 [ ] '!'").expect("40 02 k1");
    sender.send("32 r s'$delayed/5/elsewhere' k1 [ ] '!'").expect("40 03 k1 87");
}
