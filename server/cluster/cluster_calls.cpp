#include "server/cluster/cluster_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "server/cluster/row_call.h"

namespace pulsegate {

namespace {

constexpr std::string_view cluster_key = "{pg}:cluster";
constexpr std::string_view nodes_key = "{pg}:nodes";
constexpr std::string_view beats_key = "{pg}:beats";

std::string_view take_word(std::string_view& text) {
    const std::size_t end = text.find(' ');
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return word;
}

std::uint64_t take_number(std::string_view& text) {
    const std::string_view word = take_word(text);
    std::uint64_t number = 0;
    std::from_chars(word.data(), word.data() + word.size(), number);
    return number;
}

std::string node_row_text(const NodeRow& row) {
    return fmt::format("1 {} {} {}", row.is_owner ? "owner" : "standby", row.link_address,
                       row.version);
}

NodeRow parse_node_row(std::string_view text) {
    take_word(text);  // skips the format
    NodeRow row;
    row.is_owner = take_word(text) == "owner";
    row.link_address = take_word(text);
    row.version = text;
    return row;
}

Beat parse_beat(std::string incarnation, std::string_view text) {
    Beat beat{.incarnation = std::move(incarnation), .is_condemned = text == "condemned"};
    if (beat.is_condemned) return beat;
    beat.judged = take_number(text);
    beat.counted = take_number(text);
    return beat;
}

std::string counters_of(const Beat& beat) {
    return fmt::format("{} {}", beat.judged, beat.counted);
}

/// Adds the nodes of two answers to HGETALL.
void read_nodes(const RedisReply& nodes, const RedisReply& beats, Poll& poll) {
    for (std::size_t i = 0; i + 1 < nodes.items.size(); i += 2)
        poll.nodes[nodes.items[i].text] = parse_node_row(nodes.items[i + 1].text);
    for (std::size_t i = 0; i + 1 < beats.items.size(); i += 2)
        poll.beats.push_back(parse_beat(beats.items[i].text, beats.items[i + 1].text));
}

std::vector<std::string> token_keys() {
    std::vector<std::string> keys;
    for (Partition p = 0; p < partitions; ++p) keys.push_back(partition_key(p, "token"));
    return keys;
}

/// The words of an FCALL. The caller adds the function's arguments.
std::vector<std::string_view> function_call(std::string_view name, const std::string& key_count,
                                            std::vector<std::string_view> keys) {
    std::vector<std::string_view> words{"FCALL", name, key_count};
    words.insert(words.end(), keys.begin(), keys.end());
    return words;
}

std::vector<std::string> texts_of(const std::vector<std::uint64_t>& numbers) {
    std::vector<std::string> texts(numbers.size());
    std::ranges::transform(numbers, texts.begin(),
                           [](std::uint64_t number) { return std::to_string(number); });
    return texts;
}

bool is_row_hash(std::string_view key) {
    return !key.ends_with(":token") && key != cluster_key && key != nodes_key && key != beats_key;
}

}  // namespace

const NodeRow& Poll::node(const std::string& incarnation) const {
    static const NodeRow unknown;
    const auto found = nodes.find(incarnation);
    return found == nodes.end() ? unknown : found->second;
}

RowStore::Result result_of(const RedisReply& reply) {
    using Answer = RowStore::Answer;
    if (!reply.is_error()) return {};
    const auto& text = reply.text;
    if (text.starts_with("FENCED ") || text.starts_with("LOST ")) return {Answer::fenced, text};
    if (text.starts_with("EMPTIED ")) return {Answer::emptied, text};
    if (text.starts_with("OOM "))
        return {Answer::full,
                "Redis is full: it has reached its maxmemory; raise that with CONFIG SET "
                "maxmemory, or wait until clients have read what waits for them"};
    return {Answer::away, text};
}

RedisReply ClusterCalls::call(const std::vector<std::string_view>& words) {
    return redis_.call(words, deadline_);
}

Poll ClusterCalls::poll() {
    const RedisReply nodes = call({"HGETALL", nodes_key});
    const RedisReply beats = call({"HGETALL", beats_key});
    Poll poll{.result = result_of(nodes.is_error() ? nodes : beats)};
    read_nodes(nodes, beats, poll);
    return poll;
}

Poll ClusterCalls::beat(const std::string& birth, const Beat& own, const NodeRow& row,
                        bool may_be_missing) {
    const std::string counters = counters_of(own), text = node_row_text(row);
    const RedisReply reply =
        call({"FCALL", "pg1_beat", "3", cluster_key, nodes_key, beats_key, birth, own.incarnation,
              counters, text, may_be_missing ? "1" : "0"});
    Poll poll{.result = result_of(reply)};
    if (reply.items.size() == 2) read_nodes(reply.items[0], reply.items[1], poll);
    return poll;
}

Joined ClusterCalls::join(const Joining& joining) {
    const std::string count = std::to_string(partitions), text = node_row_text(joining.row);
    const std::string_view name =
        std::string_view(joining.incarnation).substr(0, joining.incarnation.rfind('#'));
    std::vector<std::string_view> words{"FCALL",   "pg1_join",          "3",           cluster_key,
                                        nodes_key, beats_key,           joining.birth, count,
                                        format,    joining.incarnation, text,          name};
    words.insert(words.end(), joining.dead.begin(), joining.dead.end());
    const RedisReply reply = call(words);
    if (reply.items.size() == 3)
        return {.birth = reply.items[0].text,
                .partitions = reply.items[1].text,
                .format = reply.items[2].text};
    constexpr std::string_view twin = "TWIN ";
    return {.trouble = reply.text,
            .twin = reply.text.starts_with(twin) ? reply.text.substr(twin.size()) : ""};
}

bool ClusterCalls::condemn(const std::string& judge, const Beat& victim) {
    const std::string counters = counters_of(victim);
    return !call({"FCALL", "pg1_condemn", "1", beats_key, judge, victim.incarnation, counters})
                .is_error();
}

std::vector<Token> ClusterCalls::tokens() {
    const std::vector<std::string> keys = token_keys();
    std::vector<std::string_view> words{"MGET"};
    words.insert(words.end(), keys.begin(), keys.end());
    const RedisReply reply = call(words);
    std::vector<Token> tokens;
    for (const RedisReply& item : reply.items) tokens.push_back(parse_token(item.text));
    if (tokens.size() != partitions)
        throw RedisError(fmt::format("{}: MGET: {}", redis_.address(), reply.text));
    return tokens;
}

RowStore::Result ClusterCalls::claim(const std::string& owner, const std::vector<Token>& seen,
                                     const std::vector<std::uint64_t>& epochs) {
    const std::vector<std::string> keys = token_keys();
    const std::vector<std::string> numbers = texts_of(epochs);
    const std::string count = std::to_string(keys.size() + 1);
    std::vector<std::string_view> words = function_call("pg1_claim", count, {beats_key});
    words.insert(words.end(), keys.begin(), keys.end());
    words.push_back(owner);
    for (std::size_t i = 0; i < keys.size(); ++i) {
        words.push_back(seen[i].text);
        words.push_back(numbers[i]);
    }
    return result_of(call(words));
}

RowStore::Result ClusterCalls::leave(const std::string& incarnation,
                                     const std::vector<std::uint64_t>& epochs) {
    const std::vector<std::string> keys = token_keys();
    const std::vector<std::string> numbers = texts_of(epochs);
    const std::string count = std::to_string(numbers.size() + 2);
    std::vector<std::string_view> words = function_call("pg1_leave", count, {nodes_key, beats_key});
    words.insert(words.end(), keys.begin(), keys.begin() + std::ssize(numbers));
    words.push_back(incarnation);
    words.insert(words.end(), numbers.begin(), numbers.end());
    return result_of(call(words));
}

std::string ClusterCalls::birth() { return call({"HGET", cluster_key, "birth"}).text; }

std::vector<std::string> ClusterCalls::row_hashes() {
    std::vector<std::string> found;
    std::string cursor = "0";
    do {
        RedisReply page = call({"SCAN", cursor, "MATCH", "{p*}:*", "COUNT", "1000"});
        if (page.items.size() != 2)
            throw RedisError(fmt::format("{}: SCAN: {}", redis_.address(), page.text));
        cursor = page.items[0].text;
        for (RedisReply& key : page.items[1].items)
            if (is_row_hash(key.text)) found.push_back(std::move(key.text));
    } while (cursor != "0");
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

}  // namespace pulsegate
