#include "server/http/users/history.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/http/questions/shard_questions.h"
#include "server/http/serving/query.h"
#include "server/session/broker_admin.h"
#include "server/session/terms/settings.h"
#include "server/session/users/history.h"
#include "server/session/users/history_event.h"

namespace pulsegate {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

struct ToldEvent {
    WallMillis time;
    json::object told;
};

std::vector<ToldEvent> events_of(ShardAdmin& shard, const std::string& user, WallMillis since) {
    std::vector<ToldEvent> events;
    shard.broker().history().visit(user, [&](const HistoryEvent& event) {
        if (event.time >= since) events.push_back({event.time, to_json(event)});
    });
    std::ranges::reverse(events);  // so the last event of a millisecond comes first, too
    return events;
}

}  // namespace

/// Logins are refused on the shard that accepted the connection, which can be any shard.
awaitable<ApiReply> show_history(const ApiContext& api, const ApiRequest& request) {
    const auto user = request.segment("user");
    if (!user) co_return api_refusal(ApiError::bad_path, "the path is not percent-encoded UTF-8");
    const auto most = page_size(request.query);
    if (api.settings.history_bytes == 0)
        co_return api_refusal(ApiError::history_off,
                              "the gateway keeps no history: set history-bytes");
    const auto question = [name = *user, since = request.query.moment("since").value_or(0)](
                              ShardAdmin& shard) { return events_of(shard, name, since); };
    auto answers = co_await api.shards.ask_all(question);
    std::vector<ToldEvent> events;
    for (auto& answer : answers) {
        if (!answer) co_return shard_unavailable();
        std::ranges::move(*answer, std::back_inserter(events));
    }
    std::ranges::stable_sort(events, std::ranges::greater(), &ToldEvent::time);
    if (events.size() > most) events.resize(most);
    json::array told;
    for (ToldEvent& event : events) told.push_back(std::move(event.told));
    co_return api_reply({{"user", *user}, {"history", std::move(told)}});
}

}  // namespace pulsegate
