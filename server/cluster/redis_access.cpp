#include "server/cluster/redis_access.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "server/cluster/cluster_calls.h"
#include "server/cluster/functions.h"

namespace pulsegate {

namespace {

std::uint64_t count_in(std::string_view info, std::string_view name) {
    const std::string text = info_field(info, name);
    std::uint64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

}  // namespace

void RedisAccess::connect(Deadline deadline, const std::string& birth) {
    if (connection_) return;
    auto connection = choose(deadline, birth);
    // On a later connection, only the writes wait for the terms: without its heartbeats, an owner
    // would lose the data because a replica is restarted.
    has_terms_ = connects_ == 0;
    if (has_terms_) check_terms(*connection, terms_, deadline);
    load_functions(*connection, deadline);
    connection_ = std::move(connection);
    ++connects_;
    if (connects_ > 1)
        spdlog::info("connected to Redis at {} again, run {}", connection_->address(),
                     connection_->run_id());
    known_.address = connection_->address();
    known_.run_id = connection_->run_id();
    run_ = connection_->run();
}

void RedisAccess::require_terms(Deadline deadline) {
    if (!has_terms_) check_terms(*connection_, terms_, deadline);
    has_terms_ = true;
}

/// A primary that was replaced in a failover may be back with older data, or with none.
std::unique_ptr<RedisConnection> RedisAccess::choose(Deadline deadline,
                                                     const std::string& birth) const {
    std::vector<std::unique_ptr<RedisConnection>> found;
    found.push_back(std::make_unique<RedisConnection>(target_, deadline));
    if (run_.empty() || !target_.sentinel_name.empty()) return std::move(found.front());
    const auto is_same_run = [&](const auto& redis) { return redis->run() == run_; };
    if (is_same_run(found.front())) return std::move(found.front());
    const std::string first = found.front()->address();
    RedisTarget other = target_;
    for (const RedisAddress& address : target_.addresses) {
        if (address.text() == first) continue;
        other.addresses = {address};
        const auto now = RedisConnection::Clock::now();
        try {
            found.push_back(std::make_unique<RedisConnection>(other, now + (deadline - now) / 4));
        } catch (const RedisError&) {
            continue;  // it is not a primary
        }
    }
    auto best = std::ranges::find_if(found, is_same_run);
    if (best == found.end() && found.size() > 1)
        best = std::ranges::find_if(found, [&](const auto& redis) {
            return ClusterCalls(*redis, deadline).birth() == birth;
        });
    return std::move(best == found.end() ? found.front() : *best);
}

void RedisAccess::drop(const std::string& why) {
    note_trouble(why);
    connection_.reset();
}

void RedisAccess::note_trouble(const std::string& why) {
    if (known_.away.empty()) spdlog::warn("Redis is away: {}", why);
    known_.away = why;
}

void RedisAccess::note_answer() {
    known_.away.clear();
    answered_ = RedisConnection::Clock::now();
}

void RedisAccess::look_closer(Deadline deadline) {
    const RedisReply reply = connection_->call({"INFO", "memory", "replication"}, deadline);
    if (reply.is_error()) return;
    const std::string& info = reply.text;
    const std::string run = run_of(connection_->run_id(), info);
    // A changed run usually means that the server was a replica for a moment. But a primary forgets
    // that it was promoted an hour after its last replica has gone; then its run is its plain run
    // id.
    if (run != run_ && run != connection_->run_id())
        throw RedisError(
            fmt::format("Redis at {} was a replica for a moment, and may have lost "
                        "its newest changes",
                        connection_->address()));
    known_.used_memory = count_in(info, "used_memory");
    known_.max_memory = count_in(info, "maxmemory");
    known_.replicas = count_in(info, "connected_slaves");
}

ClusterView::Redis RedisAccess::view() const {
    ClusterView::Redis view = known_;
    if (answered_ != Deadline())
        view.last_answer_age = std::chrono::duration_cast<std::chrono::milliseconds>(
            RedisConnection::Clock::now() - answered_);
    return view;
}

}  // namespace pulsegate
