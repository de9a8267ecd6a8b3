#include "server/http/messages/delayed.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/utf8.h"
#include "server/backend/await_result.h"
#include "server/base/log.h"
#include "server/base/text/url.h"
#include "server/http/messages/message_json.h"
#include "server/http/messages/once.h"
#include "server/http/questions/shard_questions.h"
#include "server/http/questions/stored.h"
#include "server/http/serving/bad_request.h"
#include "server/limits/admission.h"
#include "server/session/broker_admin.h"
#include "server/session/requests/delayed_terms.h"
#include "server/session/state/stored_will.h"
#include "server/shard/data_store.h"

namespace pulsegate {

namespace json = boost::json;
using boost::asio::awaitable;
using boost::beast::http::verb;

namespace {

constexpr std::size_t most_cancelled_at_once = 1000;

// -- from JSON --

/// Rounds up, because a message must never be early.
std::uint64_t whole_seconds(WallMillis moment) {
    return static_cast<std::uint64_t>(moment + 999) / 1000;
}

std::int64_t due_of(const MessageMembers& members) {
    constexpr std::uint64_t latest = 0xffffffff;
    const WallMillis time = calendar_time(monotonic_now());
    const auto delay = members.count("in", latest);
    const auto date = members.moment("at");
    if (delay.has_value() == date.has_value())
        throw BadRequest(ApiError::missing_member,
                         "the message needs 'in', a number of seconds, or 'at', a time");
    const auto due = delay ? due_after(*delay, time) : due_at(whole_seconds(*date), time);
    if (!due) throw BadRequest(ApiError::bad_member, "the message is due after the year 2106");
    return *due;
}

/// The parts of a request as they are collected.
struct Batch {
    std::vector<PutDelayed> puts{};
    RequestRoom room{};
};

/// Adds one operation for each topic, without its number.
void add_messages(Batch& batch, const json::value& value, const BrokerSettings& settings) {
    constexpr std::string_view known[] = {
        "topic",  "topics", "inbox",   "inboxes",        "room",       "rooms",
        "in",     "at",     "payload", "payload_base64", "properties", "content_type",
        "expiry", "qos",    "user",    "name",           "retain"};
    const MessageMembers members(value, known);
    const auto topics = topics_of(members, settings);
    const auto due = due_of(members);
    Message message{
        .topic = {}, .payload = members.payload(), .properties = properties_of(members)};
    message.qos = static_cast<QoS>(members.count("qos", 2).value_or(1));
    message.retain = members.flag("retain");
    check_retain(message, settings);
    const auto flags = will_flags(message);
    const auto expiry = members.count("expiry", 0xffffffff);
    const auto user = members.text("user").value_or("");
    const auto name = members.text("name");
    if (!valid_utf8(user) || has_control_character(user) || !valid_utf8(name.value_or("")))
        throw BadRequest(ApiError::bad_member,
                         "'user' has a control character, or 'name' a null character");
    if (name && topics.size() > 1)
        throw BadRequest(ApiError::conflicting_members,
                         "a 'name' is possible for one message only");
    if (name && !is_delay_name(*name))
        throw BadRequest(ApiError::bad_member,
                         "'name' is empty, a number, longer than 256 bytes, or has + or #");
    batch.room.take(topics.size(), message.cost() + user.size() + name.value_or("").size());
    for (const auto& topic : topics) {
        check_publishable(topic, message.payload, message.properties, settings);
        PutDelayed put{.id = delayed_id(due, 0), .flags = flags};
        if (expiry) put.message_expiry = static_cast<std::uint32_t>(*expiry);
        put.user = user;
        put.origin.is_backend = true;
        put.name = name;
        Message own = message;
        own.topic = topic;
        put.message = share(std::move(own));
        batch.puts.push_back(std::move(put));
    }
}

Batch messages_in(std::string_view body, const BrokerSettings& settings) {
    Batch batch;
    for_each_message(body, [&](const json::value& value) { add_messages(batch, value, settings); });
    return batch;
}

// -- to JSON --

json::object summary_of(const PutDelayed& put) {
    // A string: JavaScript's numbers have 53 bits.
    json::object one{{"id", std::to_string(put.id)},
                     {"topic", put.message->topic},
                     {"due", rfc3339(due_seconds(put.id) * 1000)}};
    if (!put.user.empty()) one["user"] = put.user;
    if (put.name) one["name"] = *put.name;
    return one;
}

json::object description_of(const PutDelayed& put) {
    Message message = *put.message;
    set_will_flags(message, put.flags);
    json::object one = summary_of(put);
    one["qos"] = static_cast<int>(message.qos);
    one["retain"] = message.retain;
    if (put.message_expiry) one["expiry"] = *put.message_expiry;
    add_payload(one, message.payload);
    add_properties(one, message.properties);
    return one;
}

// -- requests --

std::uint64_t id_of(const ApiRequest& request) {
    const auto id = decimal_number(request.segment("id").value_or(""));
    if (id.value_or(0) == 0)
        throw BadRequest(ApiError::bad_path,
                         "the path must end with the number of a delayed message");
    return *id;
}

struct Listed {
    Outcome outcome = Outcome::refused;
    std::vector<PutDelayed> messages{};
};

/// The store's answer to a unit.
struct Submitted {
    Outcome outcome = Outcome::refused;
    std::size_t cancelled = 0;
};

awaitable<Listed> list(const ApiContext& api, std::optional<std::string> user, std::uint64_t after,
                       std::size_t most) {
    auto ask = [&](auto answer) {
        api.store.ledger().list_delayed(std::move(user), after, most,
                                        [answer](Outcome outcome, std::vector<PutDelayed> found) {
                                            answer(Listed{outcome, std::move(found)});
                                        });
    };
    co_return co_await await_result<Listed>(api.io, ask, store_deadline());
}

awaitable<Submitted> submit(const ApiContext& api, std::vector<Operation> operations,
                            std::chrono::steady_clock::time_point deadline) {
    auto ask = [&](auto answer) {
        api.store.ledger().submit(
            {std::move(operations), [answer](Outcome outcome, const std::vector<Operation>& done) {
                 Submitted result{outcome};
                 for (const Operation& each : done)
                     if (const auto* cancel = std::get_if<CancelDelayed>(&each))
                         result.cancelled += cancel->found;
                 answer(result);
             }});
    };
    co_return co_await await_result<Submitted>(api.io, ask, deadline);
}

/// Claims room for all messages, or for none.
std::optional<Refusal> claim_room(const ApiContext& api, std::vector<PutDelayed>& puts) {
    DelayedTotal room{.messages = puts.size()};
    for (const PutDelayed& put : puts) room.bytes += bytes_of(put);
    std::optional<Refusal> refusal;
    const auto fits = [&](const DelayedTotal& all, const DelayedTotal&) {
        refusal = delayed_limit_reached(api.settings, all, std::nullopt);
        return !refusal;
    };
    const auto claim = api.store.ledger().claim_delayed("", room, fits);
    for (PutDelayed& put : puts) put.claim = claim;
    return refusal;
}

ApiReply nothing_stored(const ApiContext& api) {
    return store_refusal(api, "nothing is stored, or not stored yet");
}

ApiReply not_there() { return api_refusal(ApiError::unknown_message, "no such delayed message"); }

awaitable<ApiReply> cancel(const ApiContext& api, CancelDelayed which) {
    std::vector<Operation> operations;
    operations.emplace_back(std::move(which));
    const Submitted done = co_await submit(api, std::move(operations), store_deadline());
    if (done.outcome == Outcome::refused) co_return nothing_stored(api);
    if (done.cancelled == 0) co_return not_there();
    co_return api_reply({{"cancelled", done.cancelled}});
}

/// The number of cancelled messages; nothing if the store is in trouble.
template <class Wanted>
awaitable<std::optional<std::size_t>> cancel_if(const ApiContext& api,
                                                std::optional<std::string> user, Wanted wanted) {
    std::size_t cancelled = 0;
    for (std::uint64_t after = 0;;) {
        const Listed found = co_await list(api, user, after, most_cancelled_at_once);
        if (found.outcome == Outcome::refused) co_return std::nullopt;
        if (found.messages.empty()) co_return cancelled;
        after = found.messages.back().id;
        std::vector<Operation> operations;
        for (const PutDelayed& put : found.messages)
            if (wanted(put)) operations.emplace_back(CancelDelayed{.id = put.id});
        const Submitted done = co_await submit(api, std::move(operations), store_deadline());
        if (done.outcome == Outcome::refused) co_return std::nullopt;
        cancelled += done.cancelled;
    }
}

/// Cancels stored messages, and those that were taken for publication.
awaitable<bool> cancel_stored(const ApiContext& api, DelayedByClients which) {
    // Variables, because GCC 12 destroys temporaries in such an expression twice.
    std::optional<std::string> user = which.user;
    const auto wanted = [&](const PutDelayed& put) { return which.includes(put); };
    const auto cancelled = co_await cancel_if(api, std::move(user), wanted);
    const auto drop = [which](ShardAdmin& shard) { return shard.broker().drop_taken(which); };
    const auto taken = co_await api.shards.ask_one(0, drop);
    if (!cancelled || !taken) co_return false;
    if (*cancelled + *taken > 0)
        log_line(spdlog::level::info, "{} delayed messages of user {} cancelled",
                 *cancelled + *taken, LoggedUser{which.user});
    co_return true;
}

awaitable<ApiReply> cancel_all(const ApiContext& api, std::optional<std::string> user) {
    const auto all = [](const PutDelayed&) { return true; };
    const auto cancelled = co_await cancel_if(api, std::move(user), all);
    if (!cancelled) co_return nothing_stored(api);
    if (*cancelled == 0) co_return not_there();
    co_return api_reply({{"cancelled", *cancelled}});
}

awaitable<ApiReply> delay_all(const ApiContext& api, const ApiRequest& request) {
    const bool takes_memory = !api.store.is_kept();
    if (takes_memory && (api.admission.scarce() || api.admission.exceeded()))
        co_return api_refusal(ApiError::memory_used_up, "memory-budget is nearly used up");
    Batch batch = messages_in(request.body, api.settings);
    auto& puts = batch.puts;
    if (const auto refusal = claim_room(api, puts))
        co_return api_refusal(ApiError::limit_reached, refusal->why);
    for (PutDelayed& put : puts)
        put.id = delayed_id(due_seconds(put.id), api.store.next_delayed_number());
    json::array accepted;
    for (const PutDelayed& put : puts) accepted.push_back(summary_of(put));
    std::vector<Operation> operations(std::move_iterator(puts.begin()),
                                      std::move_iterator(puts.end()));
    // If there is a key, it waits for the outcome without a limit. Otherwise a repetition with the
    // same key could be stored, too.
    const auto deadline =
        request.idempotency_key ? std::chrono::steady_clock::time_point::max() : store_deadline();
    const Submitted done = co_await submit(api, std::move(operations), deadline);
    if (done.outcome == Outcome::refused) co_return nothing_stored(api);
    co_return api_reply({{"delayed", std::move(accepted)}});
}

}  // namespace

awaitable<ApiReply> add_delayed(const ApiContext& api, const ApiRequest& request) {
    co_return co_await answer_once(api, request, delay_all);
}

awaitable<ApiReply> list_delayed(const ApiContext& api, const ApiRequest& request) {
    const Query& query = request.query;
    const auto most = page_size(query);
    const auto after =
        query.number("after", 0, std::numeric_limits<std::int64_t>::max()).value_or(0);
    const auto user = query.text("user");
    const Listed found = co_await list(api, user, after, most);
    if (found.outcome == Outcome::refused) co_return nothing_stored(api);
    json::array page;
    for (const PutDelayed& put : found.messages) page.push_back(description_of(put));
    json::object body{{"delayed", std::move(page)}};
    if (found.messages.empty()) co_return api_reply(body);
    // A page may have fewer than `most` although more follow, because messages can be large.
    const std::uint64_t last = found.messages.back().id;
    const Listed behind = co_await list(api, user, last, 1);
    if (behind.outcome == Outcome::refused) co_return nothing_stored(api);
    if (!behind.messages.empty()) body["next"] = std::to_string(last);
    co_return api_reply(body);
}

awaitable<ApiReply> show_delayed(const ApiContext& api, const ApiRequest& request) {
    const std::uint64_t id = id_of(request);
    const Listed found = co_await list(api, std::nullopt, id - 1, 1);
    if (found.outcome == Outcome::refused) co_return nothing_stored(api);
    if (found.messages.empty() || found.messages.front().id != id) co_return not_there();
    co_return api_reply(description_of(found.messages.front()));
}

awaitable<ApiReply> cancel_delayed(const ApiContext& api, const ApiRequest& request) {
    CancelDelayed which;  // named: see ShardQuestions
    if (request.route.ends_with("{id}")) {
        which.id = id_of(request);
        co_return co_await cancel(api, std::move(which));
    }
    auto user = request.query.text("user");
    auto name = request.query.text("name");
    if (!user)
        throw BadRequest(ApiError::missing_parameter,
                         "no message is named: add its number to the path, or "
                         "?user=alice&name=order-17, or ?user=alice for all messages of alice");
    if (!name) co_return co_await cancel_all(api, std::move(user));
    which.user = std::move(user);
    which.name = *std::move(name);
    co_return co_await cancel(api, std::move(which));
}

/// Waits first for operations that the clients' shards have submitted. Messages that were taken for
/// publication by then are cancelled last. Even of very many clients, only few have delayed
/// messages.
awaitable<bool> cancel_of_clients(const ApiContext& api, std::vector<DelayedByClients> which) {
    if (which.empty()) co_return true;
    bool is_done = true;
    if (which.size() == 1)
        is_done = co_await is_stored_by(api, api.shards.home_of(which.front().user));
    else
        is_done = co_await is_stored_by_all(api);
    for (DelayedByClients& each : which) {
        if (!is_done) co_return false;
        if (api.store.ledger().delayed_total(each.user).messages == 0) continue;
        is_done = co_await cancel_stored(api, std::move(each));
    }
    co_return is_done;
}

awaitable<std::optional<std::size_t>> cancel_all_of(const ApiContext& api, std::string user) {
    const DelayedByClients of_clients{.user = user};
    const auto drop = [of_clients](ShardAdmin& shard) {
        return shard.broker().drop_taken(of_clients);
    };
    const auto all = [](const PutDelayed&) { return true; };
    std::optional<std::string> owner = std::move(user);
    const auto cancelled = co_await cancel_if(api, std::move(owner), all);
    const auto taken = co_await api.shards.ask_one(0, drop);
    if (!cancelled || !taken) co_return std::nullopt;
    co_return *cancelled + *taken;
}

}  // namespace pulsegate
