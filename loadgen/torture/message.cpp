#include "loadgen/torture/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace pulsegate::torture {

namespace {

constexpr std::array words{"qos1", "qos2", "delayed", "retained", "wills"};
constexpr std::array names{"QoS 1", "QoS 2", "delayed", "retained", "wills"};
static_assert(words.size() == all_kinds.size() && names.size() == all_kinds.size());

/// Takes what stands before the next space.
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

QoS qos_of(Kind kind) { return kind == Kind::qos_2 ? QoS::exactly_once : QoS::at_least_once; }

std::string describe(const Message& message) {
    const auto& [stream, number] = message;
    switch (stream.kind) {
        case Kind::retained:
            return fmt::format("value {} of publisher {} on its topic {}", number, stream.from,
                               stream.to);
        case Kind::will:
            return fmt::format("will {} of client {} to receiver {}", number, stream.from,
                               stream.to);
        default:
            return fmt::format("{} message {} of publisher {} to receiver {}", name(stream.kind),
                               number, stream.from, stream.to);
    }
}

std::string topic_of(const Stream& stream, std::string_view run) {
    if (stream.kind == Kind::retained)
        return fmt::format("torture/{}/retained/{}/{}", run, stream.from, stream.to);
    return fmt::format("torture/{}/{}/{}", run, stream.to, word(stream.kind));
}

std::string filter_of_receiver(std::uint16_t number, std::string_view run) {
    return fmt::format("torture/{}/{}/+", run, number);
}

std::string filter_of_retained(std::string_view run) {
    return fmt::format("torture/{}/retained/#", run);
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

}  // namespace pulsegate::torture
