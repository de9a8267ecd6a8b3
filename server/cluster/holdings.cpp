#include "server/cluster/holdings.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <span>
#include <utility>

#include "server/cluster/row_call.h"

namespace pulsegate {

namespace {

/// Redis accepts about a million words in a call. A change takes several.
constexpr std::size_t most_changes = 250'000;

/// How long a write waits for the replicas. Redis says with its next turn that the time is over,
/// which must not be taken for a broken connection.
constexpr std::chrono::milliseconds replica_patience{900};
constexpr std::chrono::milliseconds longest_turn{500};

using Answer = RowStore::Answer;

}  // namespace

std::string Holdings::owner() const { return fmt::format("{}:{}", incarnation_, connection_); }

std::vector<ClusterView::Owned> Holdings::view() const {
    std::vector<ClusterView::Owned> owned;
    for (const std::uint64_t epoch : epochs_) owned.push_back({incarnation_, epoch});
    return owned;
}

std::string Holdings::token(Partition partition) const {
    return fmt::format("{} {}", epochs_[partition], owner());
}

void Holdings::begin(std::string incarnation) {
    incarnation_ = std::move(incarnation);
    epochs_.clear();
    recent_.clear();
}

RowStore::Result Holdings::confirm(RedisConnection& redis, Deadline deadline, bool is_new_run) {
    std::map<Partition, std::vector<const RowChange*>> tail;
    if (is_new_run) tail = recent_.tail();
    auto& of_first = tail[0];
    of_first.insert(of_first.end(), tail[global_partition].begin(), tail[global_partition].end());
    for (Partition p = 0; p < partitions; ++p)
        redis.send(RowCall(p, epochs_.at(p), owner(), std::move(tail[p])).words());
    RowStore::Result result;
    for (Partition p = 0; p < partitions; ++p) {
        RowStore::Result one = result_of(redis.receive(deadline));
        if (result.answer == Answer::done) result = std::move(one);
    }
    if (is_new_run && result.answer == Answer::done) recent_.renew(monotonic_now());
    return result;
}

RowStore::Result Holdings::write(RedisConnection& redis, Deadline deadline,
                                 const std::vector<RowChange>& changes, bool may_overfill) {
    // Only asks for room.
    if (changes.empty()) return write_part(redis, deadline, {}, may_overfill);
    for (std::span<const RowChange> left(changes); !left.empty();) {
        const auto part = left.first(std::min(left.size(), most_changes));
        RowStore::Result result = write_part(redis, deadline, part, may_overfill);
        if (result.answer != Answer::done) return result;
        left = left.subspan(part.size());
    }
    recent_.add(monotonic_now(), changes);
    ++units_;
    return {};
}

RowStore::Result Holdings::write_part(RedisConnection& redis, Deadline deadline,
                                      std::span<const RowChange> changes, bool may_overfill) {
    const RowCall call(may_overfill ? "pg1_clear" : "pg1_unit", changes,
                       [this](Partition partition) { return token(partition); });
    redis.send(call.words());
    const std::string replicas = std::to_string(replicas_);
    const std::string patience = std::to_string(replica_patience.count());
    if (replicas_ > 0) redis.send({"WAIT", replicas, patience});
    RowStore::Result result = result_of(redis.receive(deadline));
    if (result.answer == Answer::done) bytes_ += call.bytes();
    if (replicas_ == 0) return result;
    deadline = std::max(deadline, RedisConnection::Clock::now() + replica_patience + longest_turn);
    const std::int64_t have_it = redis.receive(deadline).integer;
    if (result.answer == Answer::done && have_it < std::int64_t{replicas_})
        return {Answer::away, fmt::format("{} of {} replicas have it", have_it, replicas_)};
    return result;
}

}  // namespace pulsegate
