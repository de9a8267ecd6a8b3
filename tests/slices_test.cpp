// What nobody's packet asks for is done in slices, so that clients are served in between.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "server/shard/shard.h"
#include "tests/support/gateway.h"

using namespace pulsegate;

namespace {

void one_shard_only(Config& config) { config.shards = 1; }

/// Connections that are subscribed to this topic at QoS 0.
std::vector<Conversation> receivers_of(const Gateway& gateway, std::size_t count,
                                       const std::string& topic) {
    std::vector<Conversation> all;
    for (std::size_t i = 0; i < count; ++i) {
        Conversation& each = all.emplace_back(gateway);
        each.login(fmt::format("receiver{}", i)).send("82 r k1 s'" + topic + "' 00");
        each.expect("90 03 k1 00");
    }
    return all;
}

}  // namespace

TEST_CASE("due messages of QoS 0 are published one after the other, in several turns") {
    constexpr std::size_t receivers = 100;
    constexpr std::size_t users = 8;
    constexpr std::size_t messages_of_one = 25;
    StoppedClock clock;
    std::uint64_t before = 0;
    std::uint64_t most = 0;
    const Gateway gateway(one_shard_only);
    auto all = receivers_of(gateway, receivers, "x");
    for (std::size_t i = 0; i < users; ++i) {
        Conversation sender(gateway);
        sender.login(fmt::format("sender{}", i));
        for (std::size_t n = 0; n < messages_of_one; ++n) sender.send("30 r s'$delayed/2/x' '!'");
        sender.send("32 r s'$delayed/cancel/none' k1").expect("40 02 k1");  // all are stored
    }
    const auto measure = [&](Shard& shard) {
        before = shard.work();
        shard.guard_by([&] {
            most = std::max(most, shard.work() - before);
            before = shard.work();
        });
    };
    gateway.shards().front()->call(measure).get();
    gateway.pass(clock, 4000);
    for (auto& each : all)
        for (std::size_t n = 0; n < users * messages_of_one; ++n) each.expect("30 r s'x' '!'");
    gateway.shards().front()->call([](Shard& shard) { shard.guard_by({}); }).get();
    CHECK(most < work_a_turn + 3 * receivers);
}
