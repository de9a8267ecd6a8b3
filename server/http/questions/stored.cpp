#include "server/http/questions/stored.h"

#include <fmt/format.h>

#include <utility>

#include "server/backend/await_result.h"
#include "server/http/questions/shard_questions.h"
#include "server/session/broker_admin.h"
#include "server/shard/data_store.h"

namespace pulsegate {

namespace {

boost::asio::awaitable<bool> is_stored_until(const ApiContext& api, std::size_t shard,
                                             std::chrono::steady_clock::time_point deadline) {
    auto ask = [&api, shard](auto answer) {
        api.shards.send(shard, [answer](ShardAdmin& asked) {
            asked.broker().when_stored([answer](const Published& all) { answer(!all.refused); });
        });
    };
    co_return co_await await_result<bool>(api.io, ask, deadline);
}

}  // namespace

std::chrono::steady_clock::time_point store_deadline() {
    return std::chrono::steady_clock::now() + std::chrono::seconds(10);
}

boost::asio::awaitable<bool> is_stored_by(const ApiContext& api, std::size_t shard) {
    return is_stored_until(api, shard, store_deadline());
}

boost::asio::awaitable<bool> is_stored_by_all(const ApiContext& api) {
    const auto deadline = store_deadline();
    for (std::size_t shard = 0; shard < api.shards.shards(); ++shard)
        if (!co_await is_stored_until(api, shard, deadline)) co_return false;
    co_return true;
}

ApiReply store_refusal(const ApiContext& api, std::string_view consequence,
                       boost::json::object more) {
    return api_refusal(ApiError::not_stored,
                       fmt::format("{}; {}", api.store.why_refused(), consequence),
                       std::move(more));
}

}  // namespace pulsegate
