// Random sequences of what clients do, played to the real brokers and to a plain model of the
// standard. The model judges every packet that a client receives, and after each event what
// should have been received.
#include <doctest/doctest.h>

#include <cstddef>
#include <string>

#include "tests/support/sanitized.h"
#include "tests/support/session_player.h"

using namespace pulsegate;

namespace {

constexpr unsigned seeds = sanitized ? 2 : 40;

SessionScene scene() {
    SessionScene scene;
    scene.settings.max_session_expiry = 60'000;
    scene.settings.forget_after = 0;
    scene.settings.recipients_a_turn = 2;
    scene.settings.inbox_expiry = 0;  // inbox_test has what waits for first devices
    return scene;
}

/// Ends the sessions of disconnected clients beyond so many. If the same event both publishes to a
/// session and ends it, the message is lost with the session, before it could wait in a full queue.
void keep_few_sessions(SessionScene& scene, std::size_t quota) {
    scene.settings.persistent_session_quota = quota;
    scene.settings.recipients_a_turn = 1000;
}

/// Plays the scene with every seed, and says which one goes wrong.
SessionsSeen play(const SessionScene& scene) {
    SessionsSeen seen;
    for (unsigned seed = 1; seed <= seeds; ++seed) {
        try {
            play_sessions(scene, seed, seen);
        } catch (const Broken& rule) {
            FAIL(std::string(rule.what()));
        }
    }
    return seen;
}

}  // namespace

TEST_CASE("model: every message reaches each subscriber's session once, in order") {
    for (const unsigned shards : {1u, 3u}) {
        SessionScene plain = scene();
        plain.shards = shards;
        plain.misbehaving = true;
        const SessionsSeen seen = play(plain);
        CHECK(seen.received > 250 * seeds);
        CHECK(seen.resent > 25 * seeds);
    }
}

TEST_CASE("model: small limits lose the oldest messages, and count them") {
    SessionScene small = scene();
    small.settings.max_queued_messages = 3;
    small.settings.max_inflight = 2;
    small.settings.receive_maximum = 2;
    small.settings.topic_alias_maximum = 2;
    keep_few_sessions(small, 6);
    const SessionsSeen seen = play(small);
    CHECK(seen.full > 25 * seeds);
}

TEST_CASE("model: messages that expire or are too large are left out, and nothing else is") {
    SessionScene passing = scene();
    passing.expiring = true;
    passing.small_packets = true;
    const SessionsSeen seen = play(passing);
    CHECK(seen.expired > 2 * seeds);
    CHECK(seen.too_large > 2 * seeds);
}

TEST_CASE("model: wills are published when they are due, and not otherwise") {
    SessionScene mortal = scene();
    mortal.wills = true;
    mortal.expiring = true;
    mortal.misbehaving = true;
    keep_few_sessions(mortal, 9);
    const SessionsSeen seen = play(mortal);
    CHECK(seen.wills > 25 * seeds);
}

TEST_CASE("model: a new subscriber is told what is retained") {
    for (const unsigned shards : {1u, 3u}) {
        SessionScene lasting = scene();
        lasting.shards = shards;
        lasting.retained = true;
        lasting.wills = true;
        lasting.expiring = true;
        const SessionsSeen seen = play(lasting);
        CHECK(seen.retained > 250 * seeds);
    }
}

TEST_CASE("model: a shared subscription's message goes to one member, while one is there") {
    for (const unsigned shards : {1u, 3u}) {
        SessionScene sharing = scene();
        sharing.shards = shards;
        sharing.shared = true;
        const SessionsSeen seen = play(sharing);
        CHECK(seen.shared > 75 * seeds);
    }
}

TEST_CASE("model: an inbox reaches all sessions of its user once, whatever they subscribe to") {
    for (const unsigned shards : {1u, 3u}) {
        SessionScene busy = scene();
        busy.shards = shards;
        busy.inboxes = true;
        busy.wills = true;
        busy.expiring = true;
        busy.small_packets = true;
        busy.misbehaving = true;
        CHECK(play(busy).by_inbox > 10 * seeds);

        SessionScene small = scene();
        small.shards = shards;
        small.inboxes = true;
        small.wills = true;
        small.settings.max_queued_messages = 3;
        small.settings.max_inflight = 2;
        keep_few_sessions(small, 6);
        CHECK(play(small).full > 25 * seeds);

        SessionScene lasting = scene();
        lasting.shards = shards;
        lasting.inboxes = true;
        lasting.retained = true;
        CHECK(play(lasting).retained > 250 * seeds);
    }
}

TEST_CASE("model: with inbox off its topics are like others") {
    SessionScene off = scene();
    off.settings.inbox = false;
    off.inboxes = true;
    off.wills = true;
    const SessionsSeen seen = play(off);
    CHECK(seen.received > 250 * seeds);
    CHECK(seen.by_inbox == 0);
}

TEST_CASE("model: clients can't tell that sessions are packed") {
    for (const unsigned shards : {1u, 3u}) {
        SessionScene packing = scene();
        packing.shards = shards;
        packing.settings.packed_after = 0;
        packing.misbehaving = true;
        CHECK(play(packing).received > 250 * seeds);

        packing.wills = true;
        packing.expiring = true;
        packing.small_packets = true;
        packing.inboxes = true;
        keep_few_sessions(packing, 6);
        CHECK(play(packing).by_inbox > 10 * seeds);

        SessionScene lasting = scene();
        lasting.shards = shards;
        lasting.settings.packed_after = 0;
        lasting.retained = true;
        lasting.wills = true;
        CHECK(play(lasting).retained > 250 * seeds);

        SessionScene sharing = scene();
        sharing.shards = shards;
        sharing.settings.packed_after = 0;
        sharing.shared = true;
        CHECK(play(sharing).shared > 75 * seeds);
    }
}
