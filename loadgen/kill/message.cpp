#include "loadgen/kill/message.h"

#include <fmt/format.h>

#include <algorithm>

#include "loadgen/truth/message.h"
#include "protocol/bytes.h"

namespace pulsegate::kill {

namespace {

constexpr std::array words{"qos1",   "qos2",    "mixed",    "inbox", "rooms",
                           "shared", "delayed", "retained", "wills"};
constexpr std::array names{"QoS 1",  "QoS 2",   "mixed",    "inbox", "room",
                           "shared", "delayed", "retained", "wills"};
static_assert(words.size() == all_kinds.size() && names.size() == all_kinds.size());

}  // namespace

std::string_view name(Kind kind) { return names[static_cast<std::size_t>(kind)]; }
std::string_view word(Kind kind) { return words[static_cast<std::size_t>(kind)]; }

std::optional<Kind> kind_of(std::string_view word) {
    const auto found = std::find(words.begin(), words.end(), word);
    if (found == words.end()) return std::nullopt;
    return all_kinds[static_cast<std::size_t>(found - words.begin())];
}

bool is_ordered(Kind kind) {
    return kind == Kind::qos_1 || kind == Kind::qos_2 || kind == Kind::mixed ||
           kind == Kind::inbox || kind == Kind::room;
}

QoS qos_of(const Message& message) {
    switch (message.stream.kind) {
        case Kind::qos_1:
        case Kind::delayed:
        case Kind::retained: return QoS::at_least_once;
        case Kind::qos_2:
        case Kind::will: return QoS::exactly_once;
        default: {  // without a pattern
            constexpr std::uint32_t scatter = 2'654'435'769;
            return message.number * scatter >> 31 == 0 ? QoS::at_least_once : QoS::exactly_once;
        }
    }
}

std::string describe(const Message& message) {
    const auto& [stream, number] = message;
    switch (stream.kind) {
        case Kind::retained:
            return fmt::format("value {} of publisher {} on its topic {}", number, stream.from,
                               stream.to);
        case Kind::will:
            return fmt::format("will {} of client {} to receiver {}", number, stream.from,
                               stream.to);
        case Kind::shared:
            return fmt::format("shared message {} of publisher {} to group {}", number, stream.from,
                               stream.to);
        default:
            return fmt::format("{} message {} of publisher {} to receiver {}", name(stream.kind),
                               number, stream.from, stream.to);
    }
}

std::string client_name(std::string_view role, std::uint32_t number, std::uint64_t run) {
    return fmt::format("kill-{:x}-{}-{}", run, role, number);
}

std::string user_of_receiver(std::uint16_t number, std::uint64_t run) {
    return client_name("receiver", number, run);
}

std::string topic_of(const Stream& stream, std::uint64_t run) {
    switch (stream.kind) {
        case Kind::retained:
            return fmt::format("kill/{:x}/retained/{}/{}", run, stream.from, stream.to);
        case Kind::inbox: return fmt::format("inbox/{}", user_of_receiver(stream.to, run));
        case Kind::room: return fmt::format("room/{}", room_of_receiver(stream.to, run));
        case Kind::shared: return fmt::format("kill/{:x}/shared/{}", run, stream.to);
        default: return fmt::format("kill/{:x}/{}/{}", run, stream.to, word(stream.kind));
    }
}

std::string filter_of_receiver(std::uint16_t number, std::uint64_t run) {
    return fmt::format("kill/{:x}/{}/+", run, number);
}

std::string filter_of_group(std::uint16_t number, std::uint64_t run) {
    return fmt::format("$share/kill-{:x}-{}/kill/{:x}/shared/{}", run, number, run, number);
}

std::string filter_of_retained(std::uint64_t run) {
    return fmt::format("kill/{:x}/retained/#", run);
}

std::string room_of_receiver(std::uint16_t number, std::uint64_t run) {
    return fmt::format("kill-{:x}-{}", run, number % rooms);
}

std::string payload_of(const Message& message, std::uint64_t run) {
    const auto& [stream, number] = message;
    std::string payload;
    load::write_message({.run = run,
                         .sender = stream.from,
                         .receiver = stream.to,
                         .slot = static_cast<std::uint16_t>(stream.kind),
                         .sequence = number},
                        load::Message::size + number * 37 % 300, payload);
    return payload;
}

std::optional<Message> read_payload(std::string_view payload, std::uint64_t run) {
    const auto head = load::read_message(as_bytes(payload));
    if (!head || head->slot >= all_kinds.size()) return std::nullopt;
    const Message message{{.kind = all_kinds[head->slot],
                           .from = static_cast<std::uint16_t>(head->sender),
                           .to = static_cast<std::uint16_t>(head->receiver)},
                          head->sequence};
    return payload == payload_of(message, run) ? std::optional(message) : std::nullopt;
}

}  // namespace pulsegate::kill
