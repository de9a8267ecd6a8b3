#include "server/http/questions/eviction_steps.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstddef>

#include "server/http/questions/shard_questions.h"

namespace pulsegate {

using boost::asio::awaitable;

namespace {

/// Clients that were told to leave are gone in one of the next rounds of their shard.
awaitable<void> wait_for_turns(const ApiContext& api) {
    boost::asio::steady_timer timer(api.io, std::chrono::milliseconds(5));
    boost::system::error_code ignored;
    co_await timer.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
}

/// Repeats the step until no client is left.
template <class Step>
awaitable<std::optional<Evicted>> evict_on(const ApiContext& api, std::size_t shard, Step step) {
    Evicted all;
    for (bool more = true; more;) {
        const auto some = co_await api.shards.ask_one(shard, step);
        if (!some) co_return std::nullopt;
        all.disconnected += some->disconnected;
        all.ended += some->ended;
        all.banned.insert(all.banned.end(), some->banned.begin(), some->banned.end());
        more = some->clients() + some->leaving + some->wills > 0;
        if (some->leaving > 0 && some->clients() == 0) co_await wait_for_turns(api);
    }
    co_return all;
}

}  // namespace

awaitable<std::optional<Evicted>> evict_all(const ApiContext& api, Eviction eviction) {
    const auto step = [eviction](ShardAdmin& shard) { return shard.evict(eviction); };
    co_return co_await evict_on(api, api.shards.home_of(eviction.user), step);
}

awaitable<std::optional<Evicted>> evict_all(const ApiContext& api, Address address) {
    const auto step = [address](ShardAdmin& shard) { return shard.evict(address); };
    Evicted all;
    for (std::size_t shard = 0; shard < api.shards.shards(); ++shard) {
        const auto some = co_await evict_on(api, shard, step);
        if (!some) co_return std::nullopt;
        all.disconnected += some->disconnected;
        all.banned.insert(all.banned.end(), some->banned.begin(), some->banned.end());
    }
    co_return all;
}

}  // namespace pulsegate
