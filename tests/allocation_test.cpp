// What the gateway allocates for a packet, and whether it wipes secrets before it frees their
// memory. The tests' operators new and delete count; sanitizers have their own, and are left alone.
#include <doctest/doctest.h>

#ifndef PULSEGATE_SANITIZED

#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "server/handover/limits_passage.h"
#include "server/limits/address_limits.h"
#include "server/upgrade/gateway_record.h"
#include "tests/support/gateway.h"
#include "tests/support/temporary_folder.h"

namespace {

thread_local bool counts = true;
std::atomic<std::uint64_t> allocations = 0;
/// Part of all secrets of a test; "": none are looked for in freed memory.
thread_local std::string_view secret;
thread_local std::uint64_t unwiped = 0;

void release(void* memory) noexcept {
    if (!secret.empty() && memory != nullptr)
        unwiped +=
            ::memmem(memory, ::malloc_usable_size(memory), secret.data(), secret.size()) != nullptr;
    std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) {
    if (counts) allocations.fetch_add(1, std::memory_order_relaxed);
    if (void* const memory = std::malloc(size)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }

using namespace pulsegate;

namespace {

/// Allocations of the gateway, for each time that something is done which has been done often. Its
/// only shard is the only thread that has anything to do, beside this one.
double allocations_each(const Gateway& gateway, const std::function<void()>& once) {
    constexpr int times = 1000;
    counts = false;
    for (int i = 0; i < times; ++i) once();
    gateway.settle();
    const auto before = allocations.load();
    for (int i = 0; i < times; ++i) once();
    const auto made = allocations.load() - before;
    counts = true;
    return static_cast<double>(made) / times;
}

void one_shard(Config& config) { config.shards = 1; }

}  // namespace

TEST_CASE("a PINGREQ allocates nothing") {
    Gateway gateway(one_shard);
    Conversation client(gateway);
    client.login("pinger");
    const auto ping = [&] { client.send("c0 00").expect("d0 00"); };
    CHECK(allocations_each(gateway, ping) < 0.1);  // but for the ticks
}

TEST_CASE("a message of QoS 0 allocates only itself, and nothing for its receivers") {
    Gateway gateway(one_shard);
    Conversation sender(gateway);
    sender.login("sender");
    std::vector<Conversation> room;
    for (int i = 0; i < 10; ++i) {
        room.emplace_back(gateway);
        room.back().login("member" + std::to_string(i));
        room.back().send("82 r k1 s'room' 00").expect("90 03 k1 00");
    }
    const double each = allocations_each(gateway, [&] {
        sender.send("30 r s'room' 'hello'");
        for (Conversation& member : room) member.expect("30 r s'room' 'hello'");
    });
    CHECK(each < 2);
}

TEST_CASE("a message of QoS 1 that is answered after its receiver allocates only itself") {
    const TemporaryFolder folder;
    Gateway gateway([&](Config& config) {
        one_shard(config);
        config.data = folder.path("data");
    });
    Conversation sender(gateway);
    sender.send("10 r s'MQTT' 04 00 k60 s'sender'").expect("20 r2 00 00");
    Conversation receiver(gateway);
    receiver.send("10 r s'MQTT' 04 00 k60 s'receiver'").expect("20 r2 00 00");
    receiver.send("82 r k1 s'inbox' 01").expect("90 r k1 01");
    std::uint16_t last = 0;
    const double each = allocations_each(gateway, [&] {
        const auto number = std::to_string(++last);
        sender.send("32 r s'inbox' k" + number + " 'hello'");
        receiver.expect("32 r s'inbox' k" + number + " 'hello'");
        receiver.send("40 r2 k" + number);
        sender.expect("40 r2 k" + number);
    });
    CHECK(each < 2);
}

TEST_CASE("an upgrade wipes guessed passwords and the keys of tickets before it frees memory") {
    constexpr std::uint64_t guesses = 0xFEDCBA98ull << 32;
    secret = "\x98\xBA\xDC\xFE";
    unwiped = 0;
    {
        AddressLimits before({.ban_failures = 1'000'000});
        for (std::uint64_t i = 0; i < 1000; ++i)
            CHECK_FALSE(before.failed(*Address::parse("192.0.2.1"), guesses | i, 1000));
        GatewayRecord record;
        describe(before, record, 1000);
        record.ticket_keys = TicketKeysRecord{.present = SecretBytes("a key \x98\xBA\xDC\xFE")};
        std::string bytes = encode(record);
        const WipedAtEnd wiped(bytes);
        AddressLimits after({});
        adopt(after, *decode_gateway(bytes), 2000);
    }
    secret = {};
    CHECK(unwiped == 0);
}

#endif
