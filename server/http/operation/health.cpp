#include "server/http/operation/health.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <utility>

#include "server/base/clock.h"
#include "server/http/questions/shard_questions.h"
#include "server/limits/drain.h"
#include "server/session/broker_admin.h"
#include "server/session/durable/journal.h"
#include "server/shard/data_store.h"

namespace pulsegate {

namespace json = boost::json;
using boost::asio::awaitable;
using boost::beast::http::status;

awaitable<ApiReply> show_health(const ApiContext& api, const ApiRequest&) {
    const auto answers = co_await api.shards.ask_all([](ShardAdmin&) { return true; });
    json::array stalled;
    for (std::size_t i = 0; i < answers.size(); ++i)
        if (!answers[i]) stalled.push_back(i);
    const bool well = stalled.empty();
    auto reply = api_reply({{"status", well ? "ok" : "stalled"},
                            {"shards", api.shards.shards()},
                            {"stalled", std::move(stalled)}});
    if (!well) reply.status = status::service_unavailable;
    co_return reply;
}

awaitable<std::string> why_not_ready(const ApiContext& api) {
    const auto answers = co_await api.shards.ask_all(
        [](ShardAdmin& shard) { return shard.broker().journal().is_refused(); });
    std::string why = api.store.trouble();
    if (!why.empty()) why += "; nothing is stored";
    if (api.drain.phase() != DrainState::Phase::none) why = "the gateway is drained, and stops";
    for (const auto& refuses : answers) {
        if (!why.empty()) break;
        if (!refuses) why = "an event loop is stalled";
        if (refuses.value_or(false)) why = api.store.why_refused() + "; nothing is stored";
    }
    co_return why;
}

awaitable<ApiReply> show_readiness(const ApiContext& api, const ApiRequest&) {
    const std::string why = co_await why_not_ready(api);
    json::object state{{"status", why.empty() ? "ready" : "not ready"}};
    if (!why.empty()) state["why"] = why;
    // It is still ready, because sending clients elsewhere does not bring lost data back.
    if (const auto& damage = api.store.damage())
        state["damage"] = {{"found", rfc3339(damage->found)}, {"what", damage->what}};
    auto reply = api_reply(state);
    if (!why.empty()) reply.status = status::service_unavailable;
    co_return reply;
}

}  // namespace pulsegate
