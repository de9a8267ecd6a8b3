// What the gateway allocates for a packet. The tests' operator new counts; sanitizers have their
// own, and are left alone.
#include <doctest/doctest.h>

#ifndef PULSEGATE_SANITIZED

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "tests/support/gateway.h"
#include "tests/support/temporary_folder.h"

namespace {

thread_local bool counts = true;
std::atomic<std::uint64_t> allocations = 0;

}  // namespace

void* operator new(std::size_t size) {
    if (counts) allocations.fetch_add(1, std::memory_order_relaxed);
    if (void* const memory = std::malloc(size)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

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

TEST_CASE("a PINGREQ has nothing allocated") {
    Gateway gateway(one_shard);
    Conversation client(gateway);
    client.login("pinger");
    const auto ping = [&] { client.send("c0 00").expect("d0 00"); };
    CHECK(allocations_each(gateway, ping) < 0.1);  // but for the ticks
}

TEST_CASE("a message of QoS 0 has only itself allocated, and nothing for those who get it") {
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

TEST_CASE("a message of QoS 1 whose answer waits for its receiver has nothing else allocated") {
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

#endif
