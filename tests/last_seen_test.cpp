// The time at which a user was last seen.
#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "server/session/users/presence.h"

using namespace pulsegate;

namespace {

class QuietDevice : public Device {
public:
    explicit QuietDevice(std::string client) : Device(std::move(client), 0) {}
    Millis last_packet() const override { return 0; }
    Millis limit() const override { return 0; }
};

}  // namespace

TEST_CASE("last seen is right to the second after years online") {
    constexpr WallMillis day = 86'400'000;
    for (const WallMillis days : {1, 13, 30, 300, 4000}) {
        CAPTURE(days);
        Presence presence;
        User& user = presence.find_or_create("alice");
        QuietDevice phone("phone");
        QuietDevice desk("desk");
        const WallMillis seen = days * day + 1;
        presence.arrive(user, phone, 1000);
        presence.arrive(user, desk, 1000);
        presence.depart(user, phone, Cause::logout, seen + 1, seen);
        CHECK(user.last_seen() >= seen);
        CHECK(user.last_seen() < seen + 1000);
        presence.depart(user, desk, Cause::timeout, seen + days * day, 2000);
        CHECK(user.last_seen() >= seen);
        CHECK(user.last_seen() < seen + 2000);
    }
}

TEST_CASE("if the clock was set back, no user was last seen in the future") {
    Presence presence;
    User& ann = presence.find_or_create("ann");
    User& bob = presence.find_or_create("bob");
    QuietDevice anns("phone");
    QuietDevice bobs("phone");
    presence.arrive(ann, anns, 9000);
    presence.arrive(bob, bobs, 9000);
    presence.depart(ann, anns, Cause::logout, 5000, 4900);
    CHECK(ann.last_seen() == 4900);
    CHECK(presence.leave(bob, bobs, 5000, 4900, 1));
    CHECK(bob.last_seen() == 4900);
    Millis silent = -1;
    const auto lost = [&](const User&, Millis time) { silent = time; };
    CHECK_FALSE(presence.end_awaited(1, 10, Cause::node_lost, 4000, lost));
    CHECK(bob.last_seen() == 4000);
    CHECK(silent == 0);
}
