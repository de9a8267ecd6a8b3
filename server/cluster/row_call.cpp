#include "server/cluster/row_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>
#include <utility>

namespace pulsegate {

namespace {

/// Returns the partition with the token that guards these rows.
Partition guard_of(Partition partition) { return partition == global_partition ? 0 : partition; }

auto hash_of(const RowChange& change) { return std::tie(change.key.partition, change.key.table); }

}  // namespace

std::string partition_key(Partition partition, std::string_view name) {
    return partition == global_partition ? fmt::format("{{pg}}:{}", name)
                                         : fmt::format("{{p{}}}:{}", partition, name);
}

std::optional<std::pair<Partition, std::string>> parse_partition_key(std::string_view key) {
    const std::size_t end = key.find("}:");
    if (!key.starts_with("{p") || end == std::string_view::npos) return {};
    const std::string_view number = key.substr(2, end - 2);
    const std::string name(key.substr(end + 2));
    if (number == "g") return std::pair(global_partition, name);
    unsigned partition = partitions;
    std::from_chars(number.data(), number.data() + number.size(), partition);
    if (partition >= partitions) return {};
    return std::pair(static_cast<Partition>(partition), name);
}

RowCall::RowCall(std::string_view function, std::span<const RowChange> changes,
                 const std::function<std::string(Partition)>& token) {
    std::set<Partition> guards;
    Changes all;
    all.reserve(changes.size());
    for (const RowChange& change : changes) {
        guards.insert(guard_of(change.key.partition));
        all.push_back(&change);
    }
    std::vector<std::string> tokens, arguments{std::to_string(guards.size())};
    for (const Partition guard : guards) {
        tokens.push_back(partition_key(guard, "token"));
        arguments.push_back(token(guard));
    }
    compose(function, tokens, std::move(arguments), std::move(all));
}

RowCall::RowCall(Partition partition, std::uint64_t epoch, std::string_view owner,
                 std::vector<const RowChange*> changes) {
    compose("pg1_confirm", {partition_key(partition, "token")},
            {std::to_string(epoch), std::string(owner)}, std::move(changes));
}

std::size_t RowCall::bytes() const {
    std::size_t bytes = 0;
    for (const std::string_view word : words_) bytes += word.size();
    return bytes;
}

void RowCall::compose(std::string_view function, const std::vector<std::string>& tokens,
                      std::vector<std::string> first_arguments, Changes changes) {
    std::stable_sort(changes.begin(), changes.end(), [](const RowChange* a, const RowChange* b) {
        return hash_of(*a) < hash_of(*b);
    });
    words_ = {"FCALL", keep(std::string(function)), ""};
    for (const std::string& token : tokens) words_.push_back(keep(token));
    std::vector<std::string_view> arguments;
    arguments.reserve(first_arguments.size());
    for (std::string& argument : first_arguments) arguments.push_back(keep(std::move(argument)));
    for (auto first = changes.begin(); first != changes.end();) {
        const auto end = std::find_if(first, changes.end(), [&](const RowChange* change) {
            return hash_of(*change) != hash_of(**first);
        });
        add_hash({first, end}, arguments);
        first = end;
    }
    words_[2] = keep(std::to_string(words_.size() - 3));
    words_.insert(words_.end(), arguments.begin(), arguments.end());
}

void RowCall::add_hash(std::span<const RowChange* const> of_hash,
                       std::vector<std::string_view>& arguments) {
    const RowKey& key = of_hash.front()->key;
    words_.push_back(keep(partition_key(key.partition, key.table)));
    const auto sets = static_cast<std::size_t>(std::count_if(
        of_hash.begin(), of_hash.end(), [](const RowChange* change) { return !!change->value; }));
    arguments.push_back(keep(std::to_string(2 * sets)));
    arguments.push_back(keep(std::to_string(of_hash.size() - sets)));
    for (const RowChange* change : of_hash) {
        if (!change->value) continue;
        arguments.push_back(change->key.field);
        arguments.push_back(*change->value);
    }
    for (const RowChange* change : of_hash)
        if (!change->value) arguments.push_back(change->key.field);
}

}  // namespace pulsegate
