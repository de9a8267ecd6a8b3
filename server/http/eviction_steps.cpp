#include "server/http/eviction_steps.h"

#include "server/http/shard_questions.h"

namespace pulsegate {

using boost::asio::awaitable;

awaitable<std::optional<Evicted>> evict_all(const ApiContext& api, Eviction eviction) {
    const auto step = [eviction](Shard& shard) {
        const auto some = shard.broker().evict(eviction, monotonic_now());
        shard.end_turn();  // or the next step would find them connected
        return some;
    };
    Evicted all;
    for (bool more = true; more;) {
        const auto some = co_await api.shards.ask_home(eviction.user, step);
        if (!some) co_return std::nullopt;
        all.disconnected += some->disconnected;
        all.ended += some->ended;
        more = some->clients() > 0 && !eviction.client;
    }
    co_return all;
}

awaitable<std::optional<std::size_t>> evict_all(const ApiContext& api, Address address) {
    const auto step = [address](Shard& shard) { return shard.evict(address); };
    std::size_t all = 0;
    for (std::size_t shard = 0; shard < api.shards.shards();) {
        const auto some = co_await api.shards.ask_one(shard, step);
        if (!some) co_return std::nullopt;
        all += *some;
        if (*some == 0) ++shard;
    }
    co_return all;
}

}  // namespace pulsegate
