#include "server/cluster/membership.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "server/cluster/cluster_calls.h"
#include "server/cluster/cluster_node.h"
#include "server/cluster/hash_scan.h"
#include "server/cluster/holdings.h"
#include "server/cluster/link/node_link.h"
#include "server/cluster/redis_access.h"
#include "server/cluster/row_call.h"
#include "server/cluster/rules/incarnation.h"
#include "server/cluster/serving_lease.h"

namespace pulsegate {

namespace {

using namespace std::chrono_literals;
using Clock = RedisConnection::Clock;
using Deadline = Clock::time_point;

constexpr auto start_patience = 10s;
constexpr auto write_patience = 1000ms;
constexpr auto look_patience = 500ms;
/// Enough time to write the 64 MB again that a failover may have lost.
constexpr auto confirm_patience = 10s;
constexpr auto pause_between_attempts = 50ms;
constexpr Millis closer_look = 5000;

Pace pace_of(const Membership::Options& options) {
    if (options.beat < 1ms || options.lease < 4 * options.beat)
        throw std::runtime_error("node-lease: it is less than 4 s; give nodes more time");
    return {options.lease.count(), options.beat.count()};
}

const std::string& checked_name(const std::string& name) {
    if (!is_node_name(name))
        throw std::runtime_error(
            fmt::format("node-name: '{}' is not a valid name; use 1 to 64 letters, digits, dots, "
                        "hyphens and underscores",
                        name));
    return name;
}

/// True if a new connection may help.
bool is_of_connection(std::string_view why) {
    constexpr std::string_view causes[] = {"READONLY", "LOADING", "MASTERDOWN", "NOAUTH",
                                           "ERR Function not found"};
    return std::any_of(std::begin(causes), std::end(causes),
                       [&](std::string_view cause) { return why.starts_with(cause); });
}

}  // namespace

class Membership::Impl {
public:
    explicit Impl(Options options)
        : options_(std::move(options)),
          pace_(pace_of(options_)),
          node_({checked_name(options_.node_name), options_.version, pace_}),
          link_(options_.link, pace_.beat / 4, [this] { return node_.hello(); }),
          lease_(link_, pace_),
          redis_(options_.redis, {options_.durability, options_.replicas}),
          holdings_(options_.replicas) {
        const Deadline deadline = Clock::now() + start_patience;
        redis_.connect(deadline, node_.birth());
        join(deadline);
        run_ = redis_.connection().run();
        is_usable_ = true;
        show();
    }

    bool await_ownership(const std::function<bool()>& give_up);
    void read_rows(const Visit& visit);
    Result write(const std::vector<RowChange>& changes, bool may_overfill);
    Result rewrite(const std::vector<RowChange>& rows);
    Result look();
    void leave();
    bool may_serve() const { return lease_.holds(); }
    ClusterView view() const;
    NodeLink& link() { return link_; }

private:
    void join(Deadline deadline);
    template <class Act>
    Result attempt(Deadline deadline, const Act& act);
    template <class Act>
    Result try_once(Deadline deadline, const Act& act);
    Result use(Deadline deadline);
    bool is_well() const { return !options_.is_well || options_.is_well(); }
    Result beat(Deadline deadline, bool is_new_run);
    Result beat_if_due(Deadline deadline);
    Result take_turn(Deadline deadline);
    bool is_claimed() const;
    Result adopt(Deadline deadline);
    Result claim(Deadline deadline);
    void begin_anew(const Result& why, Deadline deadline);
    Result begin_rewrite(Deadline deadline);
    Result settled(Result result);
    void note_away(const Result& result);
    void show();

    const Options options_;
    const Pace pace_;
    ClusterNode node_;
    NodeLink link_;
    ServingLease lease_;
    RedisAccess redis_;
    Holdings holdings_;
    std::string run_;            ///< the run of Redis in which the tokens were confirmed
    bool is_usable_ = false;     ///< the connection is usable: the tokens are confirmed on it
    std::optional<Result> end_;  ///< the result `fenced` or `emptied`, after it was found
    bool is_rewriting_ = false;
    std::vector<std::uint64_t> seen_epochs_ = std::vector<std::uint64_t>(partitions);
    std::vector<Token> tokens_;
    /// The owners by the tokens with the highest epochs, for the HTTP API and edges. If a failover
    /// has lost a claim, the owner confirms its token again when it has found Redis.
    std::vector<ClusterView::Owned> known_;
    std::optional<Millis> emptied_since_;  ///< for a standby node: since when Redis is empty
    Millis next_closer_look_ = 0;
    ClusterView::Counters counters_;
    mutable std::mutex mutex_;
    ClusterView view_;  ///< guarded by the mutex
};

// -- the connection, and the first calls on it --

/// Joins, with a new incarnation.
void Membership::Impl::join(Deadline deadline) {
    node_.join(redis_.connection(), deadline, link_);
    known_.clear();
    holdings_.begin(node_.incarnation());
}

/// Tries until there is an answer or no time is left. Failed attempts may have had their effect.
template <class Act>
Membership::Result Membership::Impl::attempt(Deadline deadline, const Act& act) {
    for (;;) {
        Result result = try_once(deadline, act);
        if (result.answer != Answer::away) {
            redis_.note_answer();
            return result;
        }
        const bool is_broken = !redis_.is_connected();
        note_away(result);
        if (!is_broken || Clock::now() + pause_between_attempts >= deadline) return result;
        std::this_thread::sleep_for(pause_between_attempts);
    }
}

template <class Act>
Membership::Result Membership::Impl::try_once(Deadline deadline, const Act& act) {
    try {
        Result result = use(deadline);
        if (result.answer == Answer::done) result = act();
        if (result.answer == Answer::away && is_of_connection(result.why)) redis_.drop(result.why);
        return result;
    } catch (const RedisTermsError& error) {
        return {Answer::away, error.what()};
    } catch (const RedisError& error) {
        redis_.drop(error.what());
        return {Answer::away, error.what()};
    }
}

/// Connects if necessary, and confirms this node's tokens. After that, the caller sends unanswered
/// changes again. A new run of Redis may have lost the latest changes, so it gets them again.
Membership::Result Membership::Impl::use(Deadline deadline) {
    if (redis_.is_connected() && is_usable_) return {};
    is_usable_ = false;
    try {
        redis_.connect(deadline, node_.birth());
    } catch (const std::runtime_error& error) {
        redis_.drop(error.what());
        return {Answer::away, error.what()};
    }
    const std::string run = redis_.connection().run();
    const bool is_new_run = run != run_;
    if (is_new_run) {
        spdlog::warn("Redis at {} has begun a new run", redis_.connection().address());
        node_.begin_run();
        deadline = std::max(deadline, Clock::now() + confirm_patience);
    }
    holdings_.begin_connection();
    Result result = beat(deadline, is_new_run);
    if (result.answer == Answer::done && holdings_.is_owner()) {
        result = holdings_.confirm(redis_.connection(), deadline, is_new_run);
        counters_.confirms += is_new_run && result.answer == Answer::done;
    }
    if (result.answer != Answer::done) return result;
    run_ = run;
    is_usable_ = true;
    return result;
}

Membership::Result Membership::Impl::beat(Deadline deadline, bool is_new_run) {
    Result result = node_.beat(redis_.connection(), deadline, is_new_run, holdings_.is_owner());
    if (result.answer != Answer::done) return result;
    node_.renew(lease_);
    // A new run gets the latest changes again. Before it meets the terms, it may lose them again.
    if (!is_new_run && redis_.has_terms()) holdings_.recent().keep(monotonic_now());
    return result;
}

/// Sends heartbeats during long work, which may take the owner longer than its lease.
Membership::Result Membership::Impl::beat_if_due(Deadline deadline) {
    return node_.is_beat_due() && is_well() ? beat(deadline, false) : Result{};
}

void Membership::Impl::note_away(const Result& result) {
    if (redis_.is_connected())
        redis_.note_trouble(result.why);
    else
        is_usable_ = false;
    node_.ask_all(link_);
    lease_.note_away();
    lease_.holds();  // extends the lease, if this is called soon enough
    show();
}

// -- standing by --

bool Membership::Impl::await_ownership(const std::function<bool()>& give_up) {
    const auto nap = std::chrono::milliseconds(std::clamp<Millis>(pace_.beat / 10, 1, 100));
    for (; !give_up(); std::this_thread::sleep_for(nap)) {
        if (!node_.is_beat_due() || !is_well()) continue;
        const Deadline deadline = Clock::now() + write_patience;
        const Result result = attempt(deadline, [&] { return take_turn(deadline); });
        if (result.answer == Answer::fenced || result.answer == Answer::emptied)
            begin_anew(result, deadline);
        show();
        if (holdings_.is_owner()) return true;
    }
    return false;
}

Membership::Result Membership::Impl::take_turn(Deadline deadline) {
    Result result = beat(deadline, false);
    if (result.answer != Answer::done) return result;
    node_.judge(redis_.connection(), deadline, link_, [&] { redis_.require_terms_now(deadline); });
    tokens_ = ClusterCalls(redis_.connection(), deadline).tokens();
    known_.resize(partitions);
    for (std::size_t p = 0; p < partitions; ++p) {
        seen_epochs_[p] = std::max(seen_epochs_[p], tokens_[p].epoch);
        if (tokens_[p].epoch >= known_[p].epoch) known_[p] = {tokens_[p].owner, tokens_[p].epoch};
    }
    if (is_claimed()) return adopt(deadline);
    return node_.may_claim(tokens_) ? claim(deadline) : Result{};
}

/// True if an earlier claim succeeded although its answer was lost.
bool Membership::Impl::is_claimed() const {
    return std::all_of(tokens_.begin(), tokens_.end(),
                       [&](const Token& token) { return token.owner == node_.incarnation(); });
}

Membership::Result Membership::Impl::adopt(Deadline deadline) {
    holdings_.take(seen_epochs_);
    return holdings_.confirm(redis_.connection(), deadline, false);
}

Membership::Result Membership::Impl::claim(Deadline deadline) {
    redis_.require_terms_now(deadline);  // else it could store nothing
    std::vector<std::uint64_t> epochs;
    for (const std::uint64_t seen : seen_epochs_) epochs.push_back(seen + 1);
    ClusterCalls calls(redis_.connection(), deadline);
    Result result = calls.claim(holdings_.owner(), tokens_, epochs);
    if (result.why.starts_with("LOST")) return {};  // another node was faster
    if (result.answer != Answer::done) return result;
    spdlog::info("{} owns all {} partitions, epoch {}", node_.incarnation(), partitions,
                 epochs.front());
    holdings_.take(std::move(epochs));
    return beat(deadline, false);  // says that this node is the owner
}

/// A standby node has no data, so it simply joins again. If Redis was emptied, it waits for a
/// lease, because only the owner can fill Redis again.
void Membership::Impl::begin_anew(const Result& why, Deadline deadline) {
    if (!redis_.is_connected()) return;
    try {
        if (why.answer == Answer::emptied) {
            if (!emptied_since_) emptied_since_ = monotonic_now();
            const bool is_there = !ClusterCalls(redis_.connection(), deadline).birth().empty();
            if (!is_there && monotonic_now() < *emptied_since_ + pace_.lease) return;
            if (!is_there) spdlog::error("Redis was emptied, and no node has filled it again");
        } else {
            ++counters_.fenced;
        }
        emptied_since_.reset();
        spdlog::warn("joining again: {}", why.why);
        join(deadline);
        run_ = redis_.connection().run();
    } catch (const RedisError& error) {
        redis_.drop(error.what());
    }
}

// -- owning --

void Membership::Impl::read_rows(const Visit& visit) {
    const auto patience = [] { return Clock::now() + start_patience; };
    const Result usable = use(patience());
    if (usable.answer != Answer::done) throw RedisError(usable.why);
    RedisConnection& redis = redis_.connection();
    for (const std::string& hash : ClusterCalls(redis, patience()).row_hashes()) {
        const auto place = parse_partition_key(hash);
        if (!place) continue;
        RowKey key{place->first, place->second};
        HashScan scan(redis, hash);
        while (!scan.is_done()) {
            scan.read_page(patience(), [&](const std::string& field, std::string_view value) {
                key.field = field;
                visit(key, value);
            });
            const Result beaten = beat_if_due(patience());
            if (beaten.answer != Answer::done) throw RedisError(beaten.why);
        }
    }
}

Membership::Result Membership::Impl::write(const std::vector<RowChange>& changes,
                                           bool may_overfill) {
    if (end_) return *end_;
    const Deadline deadline = Clock::now() + write_patience;
    return settled(attempt(deadline, [&] {
        Result result = beat_if_due(deadline);
        if (result.answer != Answer::done) return result;
        redis_.require_terms(deadline);
        return holdings_.write(redis_.connection(), deadline, changes, may_overfill);
    }));
}

Membership::Result Membership::Impl::look() {
    if (end_) return *end_;
    const Deadline deadline = Clock::now() + look_patience;
    Result result = settled(attempt(deadline, [&] {
        Result answer = beat_if_due(deadline);
        if (answer.answer != Answer::done) return answer;
        node_.judge(redis_.connection(), deadline, link_, [] {});
        if (monotonic_now() < next_closer_look_) return answer;
        redis_.look_closer(deadline);
        next_closer_look_ = monotonic_now() + closer_look;
        return answer;
    }));
    show();
    return result;
}

/// Notes the result in `end_` if this incarnation or the data set has ended, and returns it.
Membership::Result Membership::Impl::settled(Result result) {
    // If tokens are missing, the birth of the data set tells: condemned, or Redis was emptied.
    if (result.answer == Answer::fenced && redis_.is_connected() && !is_rewriting_) {
        try {
            ClusterCalls calls(redis_.connection(), Clock::now() + look_patience);
            if (calls.birth() != node_.birth()) result.answer = Answer::emptied;
        } catch (const RedisError& error) {
            redis_.drop(error.what());
            return {Answer::away, error.what()};
        }
    }
    if (result.answer == Answer::fenced) {
        lease_.end();
        ++counters_.fenced;
        spdlog::error("another node may own the data: {}", result.why);
        end_ = result;
    } else if (result.answer == Answer::emptied) {
        spdlog::error("Redis has lost all data: {}; this node writes its data again", result.why);
        end_ = result;
    }
    return result;
}

Membership::Result Membership::Impl::rewrite(const std::vector<RowChange>& rows) {
    if (!end_ || end_->answer != Answer::emptied) return end_.value_or(Result{});
    const Deadline deadline = Clock::now() + confirm_patience;
    Result result;
    try {
        redis_.connect(deadline, node_.birth());
        redis_.require_terms(deadline);
        if (!is_rewriting_) result = begin_rewrite(deadline);
        if (result.answer == Answer::done) result = beat_if_due(deadline);
        if (result.answer == Answer::done && !rows.empty())
            result = holdings_.write(redis_.connection(), deadline, rows, true);
    } catch (const std::runtime_error& error) {
        redis_.drop(error.what());
        result = {Answer::away, error.what()};
    }
    is_rewriting_ = result.answer == Answer::done && !rows.empty();
    if (result.answer == Answer::away) note_away(result);
    if (result.answer == Answer::fenced) {
        end_.reset();
        return settled(result);
    }
    if (result.answer != Answer::done || !rows.empty()) return result;
    spdlog::info("Redis has all data again");
    ++counters_.rewrites;
    end_.reset();
    return result;
}

/// Claims with the highest epoch, then deletes all rows in Redis. A node that has claimed the empty
/// Redis has epoch 1, so the node with the data needs a higher one.
Membership::Result Membership::Impl::begin_rewrite(Deadline deadline) {
    RedisConnection& redis = redis_.connection();
    std::vector<std::uint64_t> epochs = holdings_.epochs();
    for (std::uint64_t& epoch : epochs) ++epoch;
    join(deadline);
    holdings_.take(epochs);
    holdings_.begin_connection();
    Result result = holdings_.confirm(redis, deadline, false);
    if (result.answer != Answer::done) return result;
    ClusterCalls calls(redis, deadline);
    for (const std::string& hash : calls.row_hashes()) calls.call({"UNLINK", hash});
    run_ = redis.run();
    is_usable_ = true;
    return result;
}

void Membership::Impl::leave() {
    lease_.end();
    if (end_) return;
    const Deadline deadline = Clock::now() + write_patience;
    const Result result = attempt(deadline, [&] {
        return ClusterCalls(redis_.connection(), deadline)
            .leave(node_.incarnation(), holdings_.epochs());
    });
    if (result.answer != Answer::done)
        spdlog::warn("could not leave the cluster, the other nodes will notice: {}", result.why);
    end_ = Result{Answer::fenced, "this node has left the cluster"};
}

// -- state for the HTTP API and metrics --

void Membership::Impl::show() {
    const auto owned = holdings_.is_owner() ? holdings_.view() : known_;
    ClusterView view{.self = node_.incarnation(),
                     .birth = node_.birth(),
                     .nodes = node_.view(owned.empty() ? "" : owned.front().owner),
                     .partitions = owned,
                     .redis = redis_.view(),
                     .counters = counters_};
    view.counters.units = holdings_.units();
    view.counters.bytes = holdings_.bytes();
    view.counters.reconnects = redis_.reconnects();
    view.counters.tail_bytes = holdings_.recent().bytes();
    view.counters.tail_bytes_dropped = holdings_.recent().dropped_bytes();
    const std::lock_guard lock(mutex_);
    view_ = std::move(view);
}

ClusterView Membership::Impl::view() const {
    const std::lock_guard lock(mutex_);
    ClusterView view = view_;
    view.may_serve = lease_.holds();
    view.certificates = link_.certificates();
    return view;
}

// -- Membership --

Membership::Membership(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Membership::~Membership() = default;

bool Membership::await_ownership(const std::function<bool()>& give_up) {
    return impl_->await_ownership(give_up);
}
void Membership::read_rows(const Visit& visit) { impl_->read_rows(visit); }
Membership::Result Membership::write(const std::vector<RowChange>& changes, bool may_overfill) {
    return impl_->write(changes, may_overfill);
}
Membership::Result Membership::rewrite(const std::vector<RowChange>& rows) {
    return impl_->rewrite(rows);
}
Membership::Result Membership::look() { return impl_->look(); }
void Membership::leave() { impl_->leave(); }
bool Membership::may_serve() const { return impl_->may_serve(); }
ClusterView Membership::view() const { return impl_->view(); }
void Membership::accept_edges(unsigned shards,
                              std::function<void(std::shared_ptr<FrameStream>)> handler,
                              std::function<void(UniqueFd, CarriedRequest)> request_handler) {
    impl_->link().accept_edges(shards, std::move(handler), std::move(request_handler));
}
void Membership::refuse_edges() { impl_->link().refuse_edges(); }
void Membership::dial(HomeNode home, unsigned shards, std::function<void(DialedHome)> done) {
    impl_->link().dial(std::move(home), shards, std::move(done));
}
void Membership::carry(HomeNode home, CarriedRequest request, UniqueFd socket) {
    impl_->link().carry(std::move(home), std::move(request), std::move(socket));
}

}  // namespace pulsegate
