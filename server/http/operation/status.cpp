#include "server/http/operation/status.h"

#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <vector>

#include "server/base/version.h"
#include "server/http/operation/drain.h"
#include "server/http/operation/health.h"
#include "server/http/operation/shard_sums.h"
#include "server/http/questions/shard_questions.h"
#include "server/limits/admission.h"
#include "server/shard/data_store.h"

namespace pulsegate {

namespace json = boost::json;

namespace {

json::object clients(const ShardSums& sums, const Admission& admission) {
    return {{"connected", sums.of(&ShardStatus::connected)},
            {"away", sums.of(&ShardStatus::disconnected)},
            {"connections", sums.of(&ShardStatus::connections)},
            {"capacity", admission.capacity()},
            {"logins_waiting", sums.of(&ShardStatus::logins_waiting)},
            {"subscriptions", sums.of(&ShardStatus::subscriptions)}};
}

json::object messages(const ShardSums& sums, std::size_t retained) {
    return {{"received", sums.of(&Counters::messages_in)},
            {"sent", sums.of(&Counters::messages_out)},
            {"dropped", sums.dropped()},
            {"queued", sums.of(&ShardStatus::waiting)},
            {"retained", retained},
            {"delayed", sums.of([](auto& each) { return each.delayed.messages; })}};
}

json::object logins(const ShardSums& sums) {
    return {{"accepted", sums.of(&Counters::logins)},
            {"refused", sums.of(&Counters::logins_refused)},
            {"taken_over", sums.of(&Counters::takeovers)},
            {"timed_out", sums.of(&Counters::expiries)},
            {"kicked_for_bad_packets", sums.of(&Counters::bad_packets)}};
}

json::array loops(const std::vector<ShardStatus>& shards) {
    json::array all;
    for (const ShardStatus& each : shards)
        all.push_back(json::object{{"clients", each.connected},
                                   {"lag_ms", each.counters.lag_last},
                                   {"output_bytes", each.backlog},
                                   {"tick", each.tick},
                                   {"slots", json::array(each.slots.begin(), each.slots.end())}});
    return all;
}

}  // namespace

boost::asio::awaitable<ApiReply> show_status(const ApiContext& api, const ApiRequest&) {
    const auto shards = co_await api.shards.status();
    if (!shards) co_return shard_unavailable();
    const std::string trouble = co_await why_not_ready(api);
    const ShardSums sums(*shards);
    const WallMillis now = wall_now();
    json::object status{
        {"version", program_version()},
        {"pid", ::getpid()},
        {"time", rfc3339(now)},
        {"started", rfc3339(api.started)},
        {"uptime", (now - api.started) / 1000},
        {"ready", trouble.empty()},
    };
    if (!trouble.empty()) status["why"] = trouble;
    status["drain"] = drain_name(api.drain.phase());
    status["clients"] = clients(sums, api.admission);
    status["users"] = {{"known", sums.of(&ShardStatus::users)},
                       {"online", sums.of(&ShardStatus::online)}};
    status["logins"] = logins(sums);
    status["messages"] = messages(sums, shards->front().retained);  // each shard has them all
    status["packets"] = {{"received", sums.of(&Counters::packets_in)},
                         {"sent", sums.of(&Counters::packets_out)}};
    status["bytes"] = {{"received", sums.of(&Counters::bytes_in)},
                       {"sent", sums.of(&Counters::bytes_out)}};
    status["memory"] = {{"bytes", api.admission.memory()},
                        {"budget", api.admission.memory_budget()}};
    status["disk"] = {{"bytes", api.store.bytes()}, {"most", api.store.max_bytes()}};
    status["shards"] = loops(*shards);
    co_return api_reply(status);
}

}  // namespace pulsegate
