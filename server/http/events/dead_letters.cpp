#include "server/http/events/dead_letters.h"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "server/backend/await_result.h"
#include "server/events/event_json.h"
#include "server/http/events/presence_feed.h"
#include "server/http/questions/stored.h"
#include "server/http/serving/bad_request.h"
#include "server/http/serving/query.h"
#include "server/shard/data_store.h"

namespace pulsegate {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

constexpr std::size_t most_letters_listed = 100;

/// The number in the id of an event of this log; nothing if there is no such parameter.
std::optional<EventNumber> event_asked(const ApiContext& api, const Query& query,
                                       std::string_view parameter) {
    const auto text = query.text(parameter);
    if (!text) return std::nullopt;
    const auto id = PresenceFeed::read_cursor(*text);
    if (!id || id->log != api.store.ledger().events().log || id->number == 0)
        throw BadRequest(ApiError::bad_parameter,
                         std::string(parameter) + ": there is no event with this id");
    return id->number;
}

json::object letter_json(std::uint64_t log, const DeadLetter& letter) {
    return {{"id", event_id(log, letter.event.number)},
            {"failed", rfc3339(letter.failed)},
            {"why", letter.why},
            {"to_replay", letter.to_replay},
            {"event", json::parse(event_json(log, letter.event))}};
}

using DeadLetters = std::optional<std::vector<DeadLetter>>;

/// Nothing if the store is in trouble.
awaitable<DeadLetters> letters_behind(const ApiContext& api, EventNumber after, std::size_t most) {
    const auto ask = [&api, after, most](auto answer) {
        api.store.ledger().list_dead_letters(
            after, false, most, [answer](Outcome outcome, std::vector<DeadLetter> letters) mutable {
                DeadLetters listed;
                if (outcome == Outcome::committed) listed = std::move(letters);
                answer(std::move(listed));
            });
    };
    co_return co_await await_result<DeadLetters>(api.io, ask, store_deadline());
}

/// Applies a change to dead letters. The reply has the number of dead letters that it found. If the
/// store is in trouble, the request is refused.
template <class Change>
awaitable<ApiReply> change_letters(const ApiContext& api, Change change, std::string_view named) {
    const auto ask = [&api, change](auto answer) {
        std::vector<Operation> operations;
        operations.emplace_back(change);
        api.store.ledger().submit(
            {std::move(operations),
             [answer](Outcome outcome, const std::vector<Operation>& done) mutable {
                 std::optional<std::size_t> found;
                 if (outcome == Outcome::committed) found = std::get<Change>(done.front()).found;
                 answer(found);
             }});
    };
    const auto found =
        co_await await_result<std::optional<std::size_t>>(api.io, ask, store_deadline());
    if (!found) co_return store_refusal(api, "the change is not stored, or not stored yet");
    if (*found == 0 && change.number)
        co_return api_refusal(ApiError::unknown_event, "no dead letter has this id");
    co_return api_reply({{named, *found}});
}

}  // namespace

awaitable<ApiReply> list_dead_letters(const ApiContext& api, const ApiRequest& request) {
    const EventNumber after = event_asked(api, request.query, "after").value_or(0);
    const auto found = co_await letters_behind(api, after, most_letters_listed);
    if (!found) co_return store_refusal(api, "dead letters can't be read");
    const EventLogState log = api.store.ledger().events();
    json::array letters;
    for (const DeadLetter& letter : *found) letters.push_back(letter_json(log.log, letter));
    json::object body{{"dead", std::move(letters)}, {"total", log.dead_letters}};
    if (found->empty()) co_return api_reply(body);
    const EventNumber last = found->back().event.number;
    const auto behind = co_await letters_behind(api, last, 1);
    if (!behind) co_return store_refusal(api, "dead letters can't be read");
    if (!behind->empty()) body["next"] = event_id(log.log, last);
    co_return api_reply(body);
}

awaitable<ApiReply> drop_dead_letters(const ApiContext& api, const ApiRequest& request) {
    const Query& query = request.query;
    const auto number = event_asked(api, query, "id");
    if (!number && query.text("all") != "true")
        throw BadRequest(ApiError::missing_parameter,
                         "no dead letter is named: add ?id=ID, or ?all=true");
    const DropDeadLetters change{.number = number};
    co_return co_await change_letters(api, change, "dropped");
}

awaitable<ApiReply> replay_dead_letters(const ApiContext& api, const ApiRequest& request) {
    if (!api.webhook)
        co_return api_refusal(ApiError::no_webhook, "there is no webhook to send them to");
    const Query& query = request.query;
    const ReplayDeadLetters change{.number = event_asked(api, query, "id")};
    co_return co_await change_letters(api, change, "to_replay");
}

}  // namespace pulsegate
