#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "protocol/encode.h"
#include "server/edge/edge_frames.h"
#include "server/edge/link_exchange.h"
#include "server/login/login_flow.h"
#include "server/shard/shard.h"
#include "tests/support/gateway.h"
#include "tests/support/versions.h"

// What a packet costs, in the measure that its sender is charged by: it must not grow with what
// others have, unless the packet is about them.

using namespace pulsegate;

namespace {

std::uint64_t work_of(const Gateway& gateway, const std::function<void()>& scene) {
    const auto before = gateway.work();
    scene();
    gateway.settle();
    return gateway.work() - before;
}

void one_shard(Config& config) { config.shards = 1; }

}  // namespace

TEST_CASE("filters that match no presence look at no user, and a change costs only the change") {
    Gateway gateway(one_shard);
    for (int i = 0; i < 300; ++i) {
        Conversation known(gateway);
        known.login("known" + std::to_string(i)).send("e0 00").rest();
    }
    Conversation watcher(gateway);
    watcher.login("watcher");
    std::string filters;
    for (int i = 0; i < 100; ++i) filters += fmt::format(" s'presence/+/{}' 00", i);
    const auto fruitless = work_of(gateway, [&] { watcher.send("82 r k1" + filters).packet(); });
    CHECK(fruitless < 3000);
}

TEST_CASE("leaving a room costs the same, however many are in it and in how many") {
    Gateway gateway(one_shard);
    Conversation member(gateway);
    member.login("member");
    std::string rooms;
    for (int i = 0; i < 500; ++i) rooms += fmt::format(" s'room/{}' 00", i);
    member.send("82 r k1" + rooms).packet();
    std::vector<Conversation> others;
    for (int i = 0; i < 300; ++i) {
        others.emplace_back(gateway);
        others.back().login("other" + std::to_string(i), v4).send("82 r k1 s'room/7' 00");
    }
    for (auto& other : others) other.expect("90 03 k1 00");
    std::string again;
    for (int i = 0; i < 1000; ++i) again += " s'room/7'";
    const auto work = work_of(gateway, [&] { member.send("a2 r k2" + again).expect("b0 02 k2"); });
    CHECK(work < 20'000);  // a few steps each, not hundreds
}

TEST_CASE("an UNSUBSCRIBE with more filters than any client has ends the connection") {
    Gateway gateway(one_shard);
    Conversation member(gateway);
    member.login("member");
    std::string filters;
    for (int i = 0; i < 1001; ++i) filters += " s'x' ";
    member.send("a2 r k1" + filters).expect_close();
}

TEST_CASE("messages without subscribers count as work, with one shard or several") {
    for (const unsigned shards : {1u, 2u}) {
        CAPTURE(shards);
        Gateway gateway([shards](Config& config) { config.shards = shards; });
        Conversation sender(gateway);
        sender.login("sender");
        std::string packets;
        for (int i = 0; i < 100; ++i)
            packets += fmt::format("30 r s'inbox/nobody{0}' | 30 r s'nothing/{0}' | ", i);
        const auto work = work_of(gateway, [&] { sender.send(packets + "c0 00").expect("d0 00"); });
        CHECK(work >= 200);
    }
}

// Otherwise a crowd that logs in through an edge would hold up all others for one turn.
TEST_CASE("each login of an edge is work, also if one mail has many") {
    constexpr unsigned logins = 50;
    Gateway gateway(one_shard);
    Shard& shard = *gateway.shards().front();
    std::string frames;
    for (unsigned number = 1; number <= logins; ++number) {
        const std::string client = fmt::format("c{}", number);
        Buffer connect;
        encode(Connect{.client_id = client}, connect);
        const auto login =
            encode(ForwardedLogin{.connect = std::string(connect), .address = "::1"});
        append(frames, {.kind = EdgeFrameKind::open, .number = number, .contents = login});
    }
    shard.send(LinkMail{.kind = LinkMail::Kind::begun, .link = 1, .peer_shards = 1});
    const auto work = work_of(gateway, [&] {
        shard.send(LinkMail{.kind = LinkMail::Kind::frames, .link = 1, .frames = frames});
    });
    CHECK(work >= logins * login_work);
    std::size_t connected = 0;
    shard.call([&](Shard& each) { connected = each.status().connected; }).get();
    CHECK(connected == logins);
}
