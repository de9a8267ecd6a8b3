#include "tests/support/random_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace pulsegate {

namespace {

constexpr std::string_view inbox_filters[] = {"inbox/ann",    "inbox/ann",  "inbox/b%2Fob",
                                              "inbox/100%25", "inbox/b/ob", "inbox/+",
                                              "inbox/#",      "inbox/%61nn"};
constexpr std::string_view shares[] = {"$share/g0/s/0", "$share/g1/s/0", "$share/g2/s/+",
                                       "$share/g3/s/1", "$share/g4/s/9"};

}  // namespace

Hello RandomSession::hello(const std::string& client, const std::string& user) {
    Hello hello;
    hello.version = chance(60) ? Version::v5_0 : Version::v3_1_1;
    hello.clean = chance(25);
    // A message that comes by a share is told from others by its identifier.
    if (scene_.shared)
        hello.version = client == "c0" || client == "c1" ? Version::v3_1_1 : Version::v5_0;
    const bool v5 = hello.version == Version::v5_0;
    if (v5) {
        if (chance(80)) hello.expiry = 1 + below(chance(50) ? 10 : 100);
        if (chance(60)) hello.receive_maximum = static_cast<std::uint16_t>(1 + below(5));
        if (chance(50)) hello.aliases = static_cast<std::uint16_t>(1 + below(3));
        if (scene_.small_packets && chance(60)) hello.largest_packet = 60 + below(40);
    } else if (!hello.clean) {
        hello.expiry = 60;
    }
    hello.expiry = std::min(hello.expiry, 60u);
    if (scene_.wills && chance(60)) {
        hello.will.emplace();
        Note& will = hello.will->note;
        const bool to_inbox = scene_.inboxes && chance(50);
        will = note(client, user, to_inbox ? std::string(one_of(inbox_topics)) : "w/" + client);
        if (!v5) will.message_expiry.reset();
        if (v5 && chance(60)) hello.will->delay = 1 + below(20);
    }
    return hello;
}

std::string_view RandomSession::topic() {
    const auto topic = scene_.shared && chance(70) ? one_of(shared_topics) : one_of(plain_topics);
    return scene_.inboxes && chance(60) ? one_of(inbox_topics) : topic;
}

Note RandomSession::note(const std::string& client, const std::string& user, std::string topic) {
    Note made;
    made.topic = std::move(topic);
    made.publisher = client;
    made.user = user;
    made.payload = fmt::format("{}-{}", client, ++payloads_);
    if (scene_.small_packets) made.payload.append(below(70), '.');
    made.qos = QoS{static_cast<std::uint8_t>(below(3))};
    if (is_for_shares(made.topic)) made.qos = QoS{static_cast<std::uint8_t>(1 + below(2))};
    if (scene_.retained && chance(40)) {
        made.retain = true;
        if (chance(20)) made.payload.clear();
    }
    if (scene_.expiring && chance(50)) made.message_expiry = below(15);
    return made;
}

RandomSession::Subscription RandomSession::subscription(bool v5) {
    Subscription made;
    if (scene_.shared && chance(60)) {
        // 3.1.1 clients hear no identifiers, and share a topic that has one group.
        const auto group = v5 ? below(std::size(shares)) : 4;
        SubscribeOptions options;
        options.qos = QoS::exactly_once;
        made.filters.push_back({shares[group], options});
        if (v5) made.identifier = group + 1;
        return made;
    }
    if (v5 && chance(60)) made.identifier = 1 + below(1000);
    for (auto left = 1 + below(3); left > 0; --left) {
        SubscribeOptions options;
        options.qos = QoS{static_cast<std::uint8_t>(below(3))};
        if (v5) {
            options.no_local = chance(25);
            options.retain_as_published = chance(50);
            options.retain_handling = static_cast<std::uint8_t>(below(3));
        }
        auto filter = scene_.shared ? one_of(plain_topics) : one_of(wide_filters);
        if (scene_.inboxes && chance(40)) filter = one_of(inbox_filters);
        made.filters.push_back({filter, options});
    }
    return made;
}

}  // namespace pulsegate
