#include "server/store/store.h"

#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "server/store/memory_store.h"

using namespace pulsegate;

namespace {

Delivery delivery(const std::string& payload) {
    return {.message = std::make_shared<Message>(
                Message{.topic = "x", .payload = payload, .properties = {}}),
            .qos = QoS::at_least_once,
            .retain = true,
            .identifiers = {1, 2},
            .share = std::make_shared<const std::string>("$share/g/x")};
}

}  // namespace

// What every store must do, so that a session need not know which one it has.
TEST_CASE_TEMPLATE("a store keeps a queue for each session", AnyStore, MemoryStore) {
    AnyStore any;
    Store& store = any;

    SUBCASE("a session that was never heard of has an empty one") {
        CHECK_FALSE(store.pop(1));
        store.forget(1);
    }
    SUBCASE("a delivery comes back as it was") {
        store.push(1, delivery("hello"));
        const auto back = store.pop(1);
        REQUIRE(back);
        CHECK(back->message->payload == "hello");
        CHECK(back->qos == QoS::at_least_once);
        CHECK(back->retain);
        CHECK(back->identifiers == std::vector<std::uint32_t>{1, 2});
        CHECK(*back->share == "$share/g/x");
        CHECK_FALSE(store.pop(1));
    }
    SUBCASE("the oldest comes first, and sessions don't see each other's") {
        std::mt19937 random(1);
        std::map<SessionId, std::deque<std::string>> model;
        for (int step = 0; step < 5000; ++step) {
            const SessionId session = random() % 5;
            const auto action = random() % 20;
            if (action == 0) {
                store.forget(session);
                model.erase(session);
            } else if (action < 11) {
                store.push(session, delivery(std::to_string(step)));
                model[session].push_back(std::to_string(step));
            } else {
                const auto oldest = store.pop(session);
                auto& queue = model[session];
                REQUIRE(oldest.has_value() == !queue.empty());
                if (!oldest) continue;
                CHECK(oldest->message->payload == queue.front());
                queue.pop_front();
            }
        }
    }
}
