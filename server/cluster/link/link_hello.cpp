#include "server/cluster/link/link_hello.h"

#include <fmt/format.h>

#include <charconv>

namespace pulsegate {

namespace {

constexpr std::string_view magic = "pulsegate-link";
constexpr std::string_view edge_magic = "pulsegate-edge";
constexpr std::string_view edge_version = "1";

std::string_view next_word(std::string_view& line) {
    const std::size_t end = line.find(' ');
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
    return word;
}

/// 0 if it is not a number.
unsigned shards_in(std::string_view word) {
    unsigned number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    return error == std::errc() && end == word.data() + word.size() ? number : 0;
}

}  // namespace

std::string to_line(const LinkHello& hello) {
    return fmt::format("{} 1 {} {} {} {}\n", magic, hello.incarnation, hello.birth,
                       hello.has_redis ? "redis" : "no-redis", hello.shards);
}

std::optional<LinkHello> parse_link_hello(std::string_view line) {
    if (next_word(line) != magic || next_word(line).empty()) return {};
    LinkHello hello;
    hello.incarnation = next_word(line);
    hello.birth = next_word(line);
    const std::string_view redis = next_word(line);
    if (hello.incarnation.empty() || (redis != "redis" && redis != "no-redis")) return {};
    hello.has_redis = redis == "redis";
    hello.shards = shards_in(next_word(line));
    return hello;
}

std::string to_edge_line(const LinkHello& edge) {
    return fmt::format("{} {} {} {} {}\n", edge_magic, edge_version, edge.incarnation, edge.birth,
                       edge.shards);
}

std::optional<LinkHello> parse_edge_line(std::string_view line) {
    if (next_word(line) != edge_magic || next_word(line) != edge_version) return {};
    LinkHello edge;
    edge.incarnation = next_word(line);
    edge.birth = next_word(line);
    edge.shards = shards_in(next_word(line));
    if (edge.incarnation.empty() || edge.shards == 0) return {};
    return edge;
}

}  // namespace pulsegate
