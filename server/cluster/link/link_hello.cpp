#include "server/cluster/link/link_hello.h"

#include <fmt/format.h>

#include "server/cluster/link/line_words.h"

namespace pulsegate {

namespace {

constexpr std::string_view magic = "pulsegate-link";
constexpr std::string_view edge_magic = "pulsegate-edge";
constexpr std::string_view edge_version = "1";
constexpr std::string_view link_begins = "new";

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
    hello.shards = word_number<unsigned>(next_word(line)).value_or(0);
    return hello;
}

std::string to_edge_line(const EdgeRequest& request) {
    const LinkHello& edge = request.edge;
    return fmt::format(
        "{} {} {} {} {} {} {}\n", edge_magic, edge_version, edge.incarnation, edge.birth,
        edge.shards, request.link,
        request.received ? fmt::to_string(*request.received) : std::string(link_begins));
}

std::optional<EdgeRequest> parse_edge_line(std::string_view line) {
    if (next_word(line) != edge_magic || next_word(line) != edge_version) return {};
    EdgeRequest request;
    request.edge.incarnation = next_word(line);
    request.edge.birth = next_word(line);
    request.edge.shards = word_number<unsigned>(next_word(line)).value_or(0);
    const auto link = word_number<std::uint64_t>(next_word(line));
    const std::string_view received = next_word(line);
    if (received != link_begins) request.received = word_number<std::uint64_t>(received);
    if (request.edge.incarnation.empty() || request.edge.shards == 0 || !link ||
        (received != link_begins && !request.received))
        return {};
    request.link = *link;
    return request;
}

}  // namespace pulsegate
