#include "loadgen/kill/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace pulsegate::kill {

namespace {

constexpr std::array words{"qos1",   "qos2",    "mixed",    "inbox", "rooms",
                           "shared", "delayed", "retained", "wills"};
constexpr std::array names{"QoS 1",  "QoS 2",   "mixed",    "inbox", "room",
                           "shared", "delayed", "retained", "wills"};
static_assert(words.size() == all_kinds.size() && names.size() == all_kinds.size());

/// Removes and returns the text before the next space.
std::string_view take_word(std::string_view& text) {
    const auto space = std::min(text.find(' '), text.size());
    const auto word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    return word;
}

template <class Number>
bool take_number(std::string_view& text, Number& number) {
    const auto digits = take_word(text);
    const auto end = digits.data() + digits.size();
    const auto [stopped, error] = std::from_chars(digits.data(), end, number);
    return error == std::errc() && stopped == end;
}

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

std::string topic_of(const Stream& stream, std::string_view run) {
    switch (stream.kind) {
        case Kind::retained:
            return fmt::format("kill/{}/retained/{}/{}", run, stream.from, stream.to);
        case Kind::inbox: return fmt::format("inbox/{}", user_of_receiver(stream.to, run));
        case Kind::room: return fmt::format("room/{}", room_of_receiver(stream.to, run));
        case Kind::shared: return fmt::format("kill/{}/shared/{}", run, stream.to);
        default: return fmt::format("kill/{}/{}/{}", run, stream.to, word(stream.kind));
    }
}

std::string filter_of_receiver(std::uint16_t number, std::string_view run) {
    return fmt::format("kill/{}/{}/+", run, number);
}

std::string filter_of_group(std::uint16_t number, std::string_view run) {
    return fmt::format("$share/kill-{}-{}/kill/{}/shared/{}", run, number, run, number);
}

std::string user_of_receiver(std::uint16_t number, std::string_view run) {
    return fmt::format("kill-{}-receiver-{}", run, number);
}

std::string room_of_receiver(std::uint16_t number, std::string_view run) {
    return fmt::format("kill-{}-{}", run, number % rooms);
}

std::string filter_of_retained(std::string_view run) {
    return fmt::format("kill/{}/retained/#", run);
}

std::string payload_of(const Message& message) {
    const auto& [stream, number] = message;
    auto text = fmt::format("{} {} {} {} ", word(stream.kind), stream.from, stream.to, number);
    return text.append(number * 37 % 300, '.');
}

std::optional<Message> read_payload(std::string_view payload) {
    const auto kind = kind_of(take_word(payload));
    Message message;
    if (!kind || !take_number(payload, message.stream.from) ||
        !take_number(payload, message.stream.to) || !take_number(payload, message.number))
        return std::nullopt;
    message.stream.kind = *kind;
    return message;
}

}  // namespace pulsegate::kill
