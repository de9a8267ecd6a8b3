#include "server/http/users/bans.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/utf8.h"
#include "server/base/log.h"
#include "server/base/text/strict_json.h"
#include "server/http/messages/delayed.h"
#include "server/http/messages/message_json.h"
#include "server/http/questions/commit.h"
#include "server/http/questions/eviction_steps.h"
#include "server/http/questions/shard_questions.h"
#include "server/http/questions/stored.h"
#include "server/http/serving/bad_request.h"
#include "server/http/serving/query.h"
#include "server/limits/address.h"
#include "server/limits/address_limits.h"
#include "server/limits/client_limits.h"
#include "server/session/broker_admin.h"
#include "server/session/users/history.h"

namespace pulsegate {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

constexpr std::size_t longest_reason = 1000;
constexpr std::uint64_t longest_ban = 0xffffffff;  // seconds

/// The user, client or address that a request is about.
struct BanTarget {
    std::optional<Address> address{};
    std::string user{};    ///< if it is not an address
    std::string client{};  ///< "": all clients of the user

    std::string text() const {
        if (address) return address->text();
        if (client.empty()) return fmt::format("user {}", in_quotes(user));
        return fmt::format("client {} of user {}", in_quotes(client), in_quotes(user));
    }
    /// The address in the form of the store.
    std::string address_text() const { return address ? address->text() : ""; }
    LogFields fields(const std::string& reason) const {
        return {.client = client, .user = user, .address = address_text(), .reason = reason};
    }
};

/// The terms of a ban in a request's body or parameters.
struct BanTerms {
    std::optional<std::string> user{};
    std::optional<std::string> client{};
    std::optional<std::string> address{};
    std::optional<std::uint64_t> seconds{};
    std::string reason{};
};

BanTerms terms_in(const Query& query) {
    return {.user = query.text("user"),
            .client = query.text("client"),
            .address = query.text("address"),
            .seconds = query.number("seconds", 1, longest_ban),
            .reason = query.text("reason").value_or("")};
}

BanTerms terms_in(std::string_view body) {
    constexpr std::string_view known[] = {"user", "client", "address", "seconds", "reason"};
    const ParsedJson parsed = parse_json(body);
    if (!parsed.mistake.empty())
        throw BadRequest(ApiError::bad_json, "the body is not JSON: " + parsed.mistake);
    const MessageMembers members(parsed.value, known, "a ban");
    BanTerms terms{.user = members.text("user"),
                   .client = members.text("client"),
                   .address = members.text("address"),
                   .seconds = members.count("seconds", longest_ban),
                   .reason = members.text("reason").value_or("")};
    for (const auto& [name, value] :
         {std::pair("user", &terms.user), std::pair("client", &terms.client),
          std::pair("address", &terms.address)})
        if (*value && (*value)->empty())
            throw BadRequest(ApiError::bad_member, fmt::format("'{}' is empty", name));
    if (terms.seconds == 0) throw BadRequest(ApiError::bad_member, "'seconds' is 0");
    return terms;
}

BanTerms terms_in(const ApiRequest& request) {
    if (request.body.empty()) return terms_in(request.query);
    if (!request.encoded_query.empty())
        throw BadRequest(
            ApiError::conflicting_parameters,
            "the request has both a body and parameters: put everything into the body");
    return terms_in(request.body);
}

BanTarget target_of(const BanTerms& terms) {
    BanTarget target{.user = terms.user.value_or(""), .client = terms.client.value_or("")};
    if (terms.address.has_value() != target.user.empty() ||
        (terms.address && !target.client.empty()))
        throw BadRequest(ApiError::missing_parameter,
                         "name one: user=alice, or user=alice and client=alice-phone, or "
                         "address=10.0.0.7");
    if (!valid_utf8(target.user) || !valid_utf8(target.client))
        throw BadRequest(ApiError::bad_parameter, "'user' or 'client' has a null character");
    if (!terms.address) return target;
    target.address = Address::parse(*terms.address);
    if (!target.address)
        throw BadRequest(ApiError::bad_parameter,
                         "'address' is neither an IP address nor an IPv6 /64 network");
    constexpr std::string_view link = "fe80::/64";
    if (target.address == Address::parse(link) && terms.address != link)
        throw BadRequest(ApiError::bad_parameter,
                         "a link-local address can't be banned by itself; name a user or a client, "
                         "or fe80::/64, which is all machines of the link");
    return target;
}

// -- actions --

void tell_history(ShardAdmin& shard, const BanTarget& target, HistoryKind kind,
                  std::string_view why) {
    shard.broker().history().add(
        target.user, {.kind = kind, .time = wall_now(), .client = target.client, .why = why});
}

/// Stores a ban, or its end. It is called right after the change in memory, on the same thread: two
/// requests about one target must reach memory and store in the same order.
using StoreChange = std::function<void()>;

/// Bans the target from logging in. False if there are too many bans; nothing if a shard does not
/// answer in time.
awaitable<std::optional<bool>> order(const ApiContext& api, BanTarget target, Millis until,
                                     std::string reason, StoreChange store) {
    const Millis now = monotonic_now();
    if (target.address) {
        const bool is_ordered =
            api.address_limits.order_ban(*target.address, now, until, std::move(reason));
        if (!is_ordered) co_return false;
        store();
        api.shards.send(
            0, [address = *target.address](ShardAdmin& first) { first.tell_ban(address); });
        co_return true;
    }
    const auto at_home = [target, now, until, reason, store](ShardAdmin& shard) {
        const bool is_ordered =
            shard.client_limits().order_ban(target.user, target.client, now, until, reason);
        if (!is_ordered) return false;
        store();
        tell_history(shard, target, HistoryKind::banned, reason);
        return true;
    };
    co_return co_await api.shards.ask_home(target.user, at_home);
}

/// False if there was no such ban.
awaitable<std::optional<bool>> lift(const ApiContext& api, BanTarget target, StoreChange store) {
    const Millis now = monotonic_now();
    if (target.address) {
        const auto lifted = api.address_limits.lift_everywhere(*target.address, now);
        api.shards.send(0, [lift = lifted.lift](ShardAdmin& first) { first.tell_lift(lift); });
        store();  // also if only the store has it, because an earlier lift could not be stored
        co_return lifted.was_banned;
    }
    const auto at_home = [target, now, store](ShardAdmin& shard) {
        const bool is_lifted = shard.client_limits().lift_ban(target.user, target.client, now);
        store();
        if (!is_lifted) return false;
        tell_history(shard, target, HistoryKind::ban_lifted, "");
        return true;
    };
    co_return co_await api.shards.ask_home(target.user, at_home);
}

awaitable<std::optional<Evicted>> throw_out(const ApiContext& api, BanTarget target) {
    if (target.address) co_return co_await evict_all(api, *target.address);
    Eviction eviction{
        .user = target.user, .drops_wills = true, .arrived_by = wall_now(), .why = "it was banned"};
    if (!target.client.empty()) eviction.client = target.client;
    co_return co_await evict_all(api, std::move(eviction));
}

/// The address of a delayed message's sender is unknown. So a ban of an address concerns the
/// clients that were disconnected.
std::vector<DelayedByClients> delayed_of(const BanTarget& target,
                                         const std::vector<BannedClient>& banned) {
    std::map<std::string, DelayedByClients> by_user;
    for (const auto& [user, client] : banned) {
        DelayedByClients& which = by_user.try_emplace(user, DelayedByClients{user}).first->second;
        which.clients.push_back(delayed_client(user, client));
    }
    std::vector<DelayedByClients> all;
    all.reserve(by_user.size() + 1);
    for (auto& [user, which] : by_user) all.push_back(std::move(which));
    if (target.address) return all;
    all.push_back({.user = target.user});
    if (!target.client.empty())
        all.back().clients.push_back(delayed_client(target.user, target.client));
    return all;
}

std::vector<Operation> ban_operations(const BanTarget& target, WallMillis ends,
                                      const std::string& reason) {
    std::vector<Operation> operations;
    operations.emplace_back(DropEndedBans{expiry_clock(monotonic_now())});
    operations.emplace_back(PutBan{.user = target.user,
                                   .client = target.client,
                                   .address = target.address_text(),
                                   .ends = ends,
                                   .reason = reason});
    return operations;
}

void log_ban(const BanTarget& target, std::optional<Millis> time, std::size_t disconnected,
             const std::string& reason) {
    const LineWithFields line(target.fields(reason));
    spdlog::info("the HTTP API has banned {} {}, and disconnected {} clients: {}", target.text(),
                 time ? fmt::format("for {} s", *time / 1000) : "for good", disconnected,
                 in_quotes(reason));
}

}  // namespace

awaitable<ApiReply> set_ban(const ApiContext& api, const ApiRequest& request) {
    const BanTerms terms = terms_in(request);
    const BanTarget target = target_of(terms);
    const std::string& reason = terms.reason;
    if (reason.size() > longest_reason)
        throw BadRequest(ApiError::bad_parameter,
                         fmt::format("'reason' is longer than {} bytes", longest_reason));
    std::optional<Millis> time;
    if (terms.seconds) time = static_cast<Millis>(*terms.seconds) * 1000;

    const Millis until = time ? monotonic_now() + *time : for_good;
    const WallMillis ends = time ? wall_now() + *time : 0;
    const Commit commit(api);
    const StoreChange store = [submit = commit.submit(), target, ends, reason] {
        submit(ban_operations(target, ends, reason));
    };
    const auto ordered = co_await order(api, target, until, reason, store);
    if (!ordered) co_return shard_unavailable();
    if (!*ordered)
        co_return api_refusal(
            ApiError::limit_reached,
            fmt::format("there are {} bans already: lift some first", most_ordered_bans));
    const auto gone = co_await throw_out(api, target);
    auto delayed = delayed_of(target, gone ? gone->banned : std::vector<BannedClient>());
    const bool cancelled = co_await cancel_of_clients(api, std::move(delayed));
    const bool is_stored = co_await commit.done() && cancelled;
    if (!gone) co_return shard_unavailable();
    log_ban(target, time, gone->disconnected, reason);
    if (!is_stored)
        co_return store_refusal(api,
                                "the ban is in force, but may end when the gateway stops, and "
                                "delayed messages may still come");
    co_return api_reply({{"disconnected", gone->disconnected}});
}

awaitable<ApiReply> lift_ban(const ApiContext& api, const ApiRequest& request) {
    const BanTarget target = target_of(terms_in(request.query));
    const Commit commit(api);
    const StoreChange store = [submit = commit.submit(), target] {
        std::vector<Operation> operations;
        operations.emplace_back(DropBan{target.user, target.client, target.address_text()});
        submit(std::move(operations));
    };
    const auto lifted = co_await lift(api, target, store);
    if (!lifted) co_return shard_unavailable();
    if (!*lifted) co_return api_refusal(ApiError::unknown_ban, "no such ban");
    if (!co_await commit.done())
        co_return store_refusal(
            api, "the ban is lifted, but may come back at the next start of the gateway");
    const LineWithFields line(target.fields(""));
    spdlog::info("the HTTP API has lifted the ban of {}", target.text());
    co_return api_reply({{"lifted", 1}});
}

}  // namespace pulsegate
