#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/packet.h"
#include "server/session/terms/settings.h"
#include "tests/support/session_model.h"

namespace pulsegate {

/// What a play is about.
struct SessionScene {
    unsigned shards = 3;
    BrokerSettings settings{};
    int clients = 6;
    int steps = 1500;
    bool retained = false;
    bool shared = false;
    bool wills = false;
    bool inboxes = false;        ///< users have several devices, and some messages are for inboxes
    bool expiring = false;       ///< messages
    bool small_packets = false;  ///< clients with a Maximum Packet Size
    bool misbehaving = false;
    int delivery_percent = 30;  ///< share of events that deliver messages between shards

    /// Without these the model knows exactly what waits for each client.
    bool exact() const { return !retained && !shared; }
};

/// The topics that clients publish to, and the filters without shares that they choose from.
inline constexpr std::string_view plain_topics[] = {"a",     "a/b", "a/c", "b",
                                                    "b/x/y", "a/",  "/a",  "c/b"};
inline constexpr std::string_view inbox_topics[] = {"inbox/ann",    "inbox/b%2Fob", "inbox/100%25",
                                                    "inbox/nobody", "inbox/b/ob",   "inbox/100%",
                                                    "inbox/%61nn",  "inbox/",       "inbox"};
inline constexpr std::string_view shared_topics[] = {"s/0", "s/1", "s/9"};
inline constexpr std::string_view wide_filters[] = {"a",   "a/b",   "a/c", "b",   "b/x/y", "a/",
                                                    "/a",  "c/b",   "a/+", "a/#", "#",     "+",
                                                    "+/b", "b/+/y", "/+",  "+/+", "b/#",   "w/#"};

/// What random clients send; the seed decides.
class RandomSession {
public:
    struct Subscription {
        std::vector<SubscribeFilter> filters;
        std::uint32_t identifier = 0;  ///< 0: none
    };

    RandomSession(const SessionScene& scene, unsigned seed) : scene_(scene), random_(seed) {}

    unsigned below(std::size_t bound) { return static_cast<unsigned>(random_() % bound); }
    bool chance(unsigned percent) { return below(100) < percent; }
    template <class List>
    auto& one_of(List& list) {
        return *std::next(std::begin(list), below(std::size(list)));
    }

    Hello hello(const std::string& client, const std::string& user);
    std::string_view topic();
    /// A message of the client to the topic.
    Note note(const std::string& client, const std::string& user, std::string topic);
    Subscription subscription(bool v5);

private:
    const SessionScene scene_;
    std::mt19937 random_;
    unsigned payloads_ = 0;
};

}  // namespace pulsegate
