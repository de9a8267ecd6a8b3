#include "server/http/users/rooms.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/utf8.h"
#include "server/base/text/strict_json.h"
#include "server/http/questions/shard_questions.h"
#include "server/http/questions/stored.h"
#include "server/http/serving/bad_request.h"
#include "server/http/serving/query.h"
#include "server/message/topics.h"
#include "server/session/broker_admin.h"
#include "server/session/rooms/rooms.h"

namespace pulsegate {

namespace json = boost::json;
using boost::asio::awaitable;
using boost::beast::http::status;

namespace {

constexpr std::size_t most_members_changed = 10'000;

// The limits of one round of a shard.
constexpr std::size_t most_changed_a_turn = 1000;
constexpr std::size_t most_examined_a_turn = 2000;

/// The changes of a request. The shards share them, and each does its own part.
struct MemberChange {
    std::string topic{};
    std::vector<std::string> add{};
    std::vector<std::string> remove{};

    std::size_t size() const { return add.size() + remove.size(); }
};
using SharedChange = std::shared_ptr<const MemberChange>;

struct MembersChanged {
    std::size_t added = 0;
    std::size_t removed = 0;
    bool has_room = true;
};

// -- reading requests --

/// Accepts only names that clients can use. Nobody could read or leave a room with another name.
void check_member_name(std::string_view name, ApiError from) {
    if (name.empty() || name.size() > longest_name || !valid_utf8(name) ||
        has_control_character(name))
        throw BadRequest(
            from, fmt::format("the name of a room or a user is empty, has more than {} bytes or a "
                              "control character, or is no UTF-8",
                              longest_name));
}

bool names(const ApiRequest& request, std::string_view segment) {
    return request.route.find(segment) != std::string_view::npos;
}

std::string name_in(const ApiRequest& request, std::string_view segment) {
    auto name = request.segment(segment).value_or("");
    check_member_name(name, ApiError::bad_path);
    return name;
}

/// The list of a request: a room's members, or a user's watchers.
std::string topic_named(const ApiRequest& request) {
    return names(request, "{room}") ? room_topic(name_in(request, "room"))
                                    : presence_topic(name_in(request, "user"));
}

std::string user_named(const ApiRequest& request) {
    return name_in(request, names(request, "{watcher}") ? "watcher" : "user");
}

std::vector<std::string> users_in(const json::object& body, std::string_view key) {
    std::vector<std::string> users;
    const json::value* const found = body.if_contains(key);
    if (!found) return users;
    if (!found->is_array())
        throw BadRequest(ApiError::bad_member, fmt::format("'{}' is not a list", key));
    for (const json::value& user : found->get_array()) {
        if (!user.is_string())
            throw BadRequest(ApiError::bad_member,
                             fmt::format("'{}' has an entry that is not text", key));
        check_member_name(user.get_string(), ApiError::bad_member);
        users.emplace_back(user.get_string());
    }
    return users;
}

MemberChange change_in(const ApiRequest& request) {
    const ParsedJson parsed = parse_json(request.body);
    if (!parsed.mistake.empty())
        throw BadRequest(ApiError::bad_json, "the body is not JSON: " + parsed.mistake);
    if (!parsed.value.is_object())
        throw BadRequest(ApiError::bad_json,
                         R"(the body is not like {"add":["alice"],"remove":["bob"]})");
    const json::object& body = parsed.value.get_object();
    for (const auto& member : body)
        if (member.key() != "add" && member.key() != "remove")
            throw BadRequest(ApiError::unknown_member,
                             fmt::format("'{}' is not known here", std::string(member.key())));
    MemberChange change{.topic = topic_named(request),
                        .add = users_in(body, "add"),
                        .remove = users_in(body, "remove")};
    if (change.size() > most_members_changed)
        throw BadRequest(ApiError::too_many_entries,
                         fmt::format("the request names more than {} users", most_members_changed));
    const std::set<std::string_view> added(change.add.begin(), change.add.end());
    for (const auto& user : change.remove)
        if (added.contains(user))
            throw BadRequest(ApiError::conflicting_members,
                             fmt::format("'{}' is both in 'add' and in 'remove'", user));
    return change;
}

// -- on the shards --

void remove_here(Rooms& rooms, const MemberChange& change, std::string_view user,
                 MembersChanged& changed) {
    changed.removed += rooms.remove(change.topic, user) == Rooms::Change::done;
}

void add_here(Rooms& rooms, const MemberChange& change, std::string_view user,
              MembersChanged& changed) {
    const auto result = rooms.add(change.topic, user);
    changed.added += result == Rooms::Change::done;
    changed.has_room &= result != Rooms::Change::no_room;
}

/// The end of the round that begins at index `first`. Removals come first, because they may make
/// room for additions. No round does both, because the shards don't run a round at the same time.
std::size_t end_of_round(const MemberChange& change, std::size_t first) {
    const bool removes = first < change.remove.size();
    return std::min(first + most_changed_a_turn, removes ? change.remove.size() : change.size());
}

MembersChanged change_some_here(Rooms& rooms, const MemberChange& change, std::size_t first) {
    MembersChanged changed;
    const auto end = end_of_round(change, first);
    for (std::size_t place = first; place < end; ++place) {
        const bool removes = place < change.remove.size();
        const std::string& user =
            removes ? change.remove[place] : change.add[place - change.remove.size()];
        if (!rooms.is_at_home(user)) continue;
        removes ? remove_here(rooms, change, user, changed)
                : add_here(rooms, change, user, changed);
    }
    return changed;
}

/// Nothing if a shard does not answer in time.
awaitable<std::optional<MembersChanged>> change_everywhere(const ApiContext& api,
                                                           SharedChange change) {
    MembersChanged all;
    for (std::size_t first = 0; first < change->size(); first = end_of_round(*change, first)) {
        const auto order = [change, first](ShardAdmin& shard) {
            return change_some_here(shard.broker().rooms(), *change, first);
        };
        const auto answers = co_await api.shards.ask_all(order);
        for (const auto& answer : answers) {
            if (!answer) co_return std::nullopt;
            all.added += answer->added;
            all.removed += answer->removed;
            all.has_room &= answer->has_room;
        }
    }
    co_return all;
}

awaitable<ApiReply> changed_reply(const ApiContext& api, std::optional<MembersChanged> changed,
                                  status right) {
    if (!changed) co_return shard_unavailable();
    if (!co_await is_stored_by_all(api))
        co_return store_refusal(api, "the change is in force, but not after the next start");
    const json::object body{{"added", changed->added}, {"removed", changed->removed}};
    if (!changed->has_room)
        co_return api_refusal(ApiError::limit_reached, "max-room-members is reached", body);
    auto reply = api_reply(body);
    reply.status = right;
    co_return reply;
}

/// If a request is repeated after trouble of the disk, the absence is reported only when it is
/// stored.
awaitable<ApiReply> removed_reply(const ApiContext& api, std::optional<MembersChanged> changed,
                                  const char* if_none) {
    auto reply = co_await changed_reply(api, changed, status::ok);
    const bool is_none = changed && changed->removed == 0 && reply.status == status::ok;
    if (is_none) co_return api_refusal(ApiError::not_listed, if_none);
    co_return reply;
}

awaitable<ApiReply> apply(const ApiContext& api, MemberChange change) {
    const auto shared = std::make_shared<const MemberChange>(std::move(change));
    co_return co_await changed_reply(api, co_await change_everywhere(api, shared), status::ok);
}

/// Merges the ordered lists of several shards into one page with the first entries of all.
template <class Map>
json::object page_of(Map& all, std::size_t most, std::string_view name, json::array listed) {
    json::object body{{name, std::move(listed)}};
    if (all.size() > most)
        body["next"] = std::next(all.begin(), static_cast<long>(most) - 1)->first;
    return body;
}

}  // namespace

awaitable<ApiReply> add_member(const ApiContext& api, const ApiRequest& request) {
    const auto change = std::make_shared<const MemberChange>(
        MemberChange{.topic = topic_named(request), .add = {user_named(request)}});
    const auto changed = co_await change_everywhere(api, change);
    const bool is_new = changed && changed->added > 0;
    co_return co_await changed_reply(api, changed, is_new ? status::created : status::ok);
}

awaitable<ApiReply> remove_member(const ApiContext& api, const ApiRequest& request) {
    const auto change = std::make_shared<const MemberChange>(
        MemberChange{.topic = topic_named(request), .remove = {user_named(request)}});
    const auto changed = co_await change_everywhere(api, change);
    co_return co_await removed_reply(api, changed, "it is not on the list");
}

awaitable<ApiReply> change_members(const ApiContext& api, const ApiRequest& request) {
    co_return co_await apply(api, change_in(request));
}

awaitable<ApiReply> remove_all_members(const ApiContext& api, const ApiRequest& request) {
    const auto step = [topic = topic_named(request)](ShardAdmin& shard) {
        return shard.broker().rooms().remove_some(topic, most_changed_a_turn);
    };
    MembersChanged all;
    for (std::size_t i = 0; i < api.shards.shards(); ++i) {
        for (bool more = true; more;) {
            const auto removed = co_await api.shards.ask_one(i, step);
            if (!removed) co_return shard_unavailable();
            all.removed += *removed;
            more = *removed == most_changed_a_turn;
        }
    }
    co_return co_await removed_reply(api, all, "nobody is on the list");
}

awaitable<ApiReply> list_members(const ApiContext& api, const ApiRequest& request) {
    const Query& query = request.query;
    const auto most = page_size(query);
    const auto topic = topic_named(request);
    const auto question = [topic, most,
                           after = query.text("after").value_or("")](ShardAdmin& shard) {
        return shard.broker().rooms().list_members(topic, after, most + 1);
    };
    std::map<std::string, std::size_t> all;
    const auto answers = co_await api.shards.ask_all(question);
    for (const auto& answer : answers) {
        if (!answer) co_return shard_unavailable();
        for (const auto& user : *answer) all.emplace(user, 1);
    }
    json::array listed;
    for (const auto& [user, count] : all)
        if (listed.size() < most) listed.push_back(json::string(user));
    const auto* const name = room_of(topic) ? "members" : "watchers";
    co_return api_reply(page_of(all, most, name, std::move(listed)));
}

awaitable<ApiReply> list_rooms(const ApiContext& api, const ApiRequest& request) {
    const Query& query = request.query;
    const auto most = page_size(query);
    const auto behind = query.text("after");
    const auto question = [most, after = behind ? room_topic(*behind) : ""](ShardAdmin& shard) {
        return shard.broker().rooms().list(after, most + 1);
    };
    std::map<std::string, std::size_t> members;  // by topic, the order of the pages
    const auto answers = co_await api.shards.ask_all(question);
    for (const auto& answer : answers) {
        if (!answer) co_return shard_unavailable();
        for (const auto& room : *answer) members[room.topic] += room.members;
    }
    json::array listed;
    for (const auto& [topic, count] : members)
        if (listed.size() < most)
            listed.push_back(json::object{{"room", room_name(topic)}, {"members", count}});
    auto body = page_of(members, most, "rooms", std::move(listed));
    if (auto* next = body.if_contains("next")) *next = room_name(next->as_string());
    co_return api_reply(body);
}

awaitable<ApiReply> list_rooms_of_user(const ApiContext& api, const ApiRequest& request) {
    const auto user = user_named(request);
    json::array rooms;
    for (std::optional<std::string> after = ""; after;) {
        const auto question = [user, behind = *after](ShardAdmin& shard) {
            return shard.broker().rooms().rooms_of(user, behind, most_examined_a_turn);
        };
        const auto page = co_await api.shards.ask_home(user, question);
        if (!page) co_return shard_unavailable();
        for (const auto& topic : page->topics) rooms.push_back(json::string(room_name(topic)));
        after = page->next;
    }
    co_return api_reply({{"user", user}, {"rooms", std::move(rooms)}});
}

}  // namespace pulsegate
