#include "server/cluster/link/link_hello.h"

#include <fmt/format.h>

namespace pulsegate {

namespace {

constexpr std::string_view magic = "pulsegate-link";

std::string_view next_word(std::string_view& line) {
    const std::size_t end = line.find(' ');
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
    return word;
}

}  // namespace

std::string to_line(const LinkHello& hello) {
    return fmt::format("{} 1 {} {} {}\n", magic, hello.incarnation, hello.birth,
                       hello.has_redis ? "redis" : "no-redis");
}

std::optional<LinkHello> parse_link_hello(std::string_view line) {
    if (next_word(line) != magic || next_word(line).empty()) return {};
    LinkHello hello;
    hello.incarnation = next_word(line);
    hello.birth = next_word(line);
    const std::string_view redis = next_word(line);
    if (hello.incarnation.empty() || (redis != "redis" && redis != "no-redis")) return {};
    hello.has_redis = redis == "redis";
    return hello;
}

}  // namespace pulsegate
