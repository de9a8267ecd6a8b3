#include "server/http/operation/wheel.h"

#include <boost/json/array.hpp>

#include "server/http/questions/shard_questions.h"

namespace pulsegate {

namespace json = boost::json;

boost::asio::awaitable<ApiReply> show_wheel(const ApiContext& api, const ApiRequest&) {
    const auto shards = co_await api.shards.status();
    if (!shards) co_return shard_unavailable();
    json::array wheels;
    for (const ShardStatus& shard : *shards)
        wheels.push_back(json::object{
            {"shard", wheels.size()},
            {"tick", shard.tick},
            {"current", shard.tick % Wheel::slots},
            {"connections", shard.connections},
            {"slots", json::array(shard.slots.begin(), shard.slots.end())},
        });
    co_return api_reply({{"tick_ms", tick_length}, {"shards", std::move(wheels)}});
}

}  // namespace pulsegate
