#include "server/cluster/link/link_hello.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/cluster/link/line_words.h"

namespace pulsegate {

namespace {

constexpr std::string_view magic = "pulsegate-link";
constexpr std::string_view edge_magic = "pulsegate-edge";
constexpr std::string_view link_begins = "new";

std::string versions_word(const LinkVersions& versions) {
    if (versions.first == versions.last) return fmt::to_string(versions.first);
    return fmt::format("{}-{}", versions.first, versions.last);
}

std::optional<LinkVersions> word_versions(std::string_view word) {
    const std::size_t dash = word.find('-');
    const auto first = word_number<unsigned>(word.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : word_number<unsigned>(word.substr(dash + 1));
    if (!first || !last || *first == 0 || *first > *last) return {};
    return LinkVersions{*first, *last};
}

}  // namespace

std::string LinkVersions::text() const {
    if (first == last) return fmt::format("version {}", first);
    return fmt::format("versions {} to {}", first, last);
}

std::optional<unsigned> common_version(const LinkVersions& one, const LinkVersions& other) {
    const unsigned highest = std::min(one.last, other.last);
    if (highest < std::max(one.first, other.first)) return {};
    return highest;
}

std::string no_common_version(std::string_view peer, const LinkVersions& of_peer,
                              const LinkVersions& ours) {
    return fmt::format(
        "{} speaks {} of the link, and this node {}: run the same version of Pulsegate on both",
        peer, of_peer.text(), ours.text());
}

std::string to_line(const LinkHello& hello) {
    return fmt::format("{} {} {} {} {} {}\n", magic, versions_word(hello.versions),
                       hello.incarnation, hello.birth, hello.has_redis ? "redis" : "no-redis",
                       hello.shards);
}

std::optional<LinkHello> parse_link_hello(std::string_view line) {
    if (next_word(line) != magic) return {};
    const std::string_view versions = next_word(line);
    if (versions.empty()) return {};
    // A node that writes its versions in another way is there nevertheless.
    LinkHello hello{.versions = word_versions(versions).value_or(LinkVersions{0, 0})};
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
        "{} {} {} {} {} {} {}\n", edge_magic, edge.versions.last, edge.incarnation, edge.birth,
        edge.shards, request.link,
        request.received ? fmt::to_string(*request.received) : std::string(link_begins));
}

std::optional<EdgeRequest> parse_edge_line(std::string_view line) {
    if (next_word(line) != edge_magic) return {};
    const auto version = word_number<unsigned>(next_word(line));
    if (!version) return {};
    EdgeRequest request{.edge = {.versions = {*version, *version}}};
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
