#include "server/http/users/client_list.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/base/clock.h"
#include "server/http/questions/shard_questions.h"
#include "server/http/serving/bad_request.h"
#include "server/http/users/client_json.h"
#include "server/http/users/shard_cursor.h"
#include "server/http/users/shard_pages.h"
#include "server/session/broker_admin.h"
#include "server/session/client_search.h"

namespace pulsegate {

using boost::asio::awaitable;

namespace {

/// The terms of a request. The shards read them in their turns.
struct Wanted {
    std::optional<std::string> user{};
    ClientFilter filter{};
};
using SharedWanted = std::shared_ptr<const Wanted>;

SharedWanted wanted_in(const Query& query) {
    auto wanted = std::make_shared<Wanted>();
    ClientFilter& filter = wanted->filter;
    wanted->user = query.text("user");
    filter.client_prefix = query.text("client").value_or("");
    filter.listener = query.text("listener").value_or("");
    if (const auto address = query.text("address")) {
        filter.address = AddressRange::parse(*address);
        if (!filter.address)
            throw BadRequest(ApiError::bad_parameter,
                             "'address' is neither an IP address nor a network such as 10.0.0.0/8");
    }
    if (const auto state = query.text("state")) {
        if (*state != "connected" && *state != "away")
            throw BadRequest(ApiError::bad_parameter, "'state' can be 'connected' or 'away'");
        filter.connected = *state == "connected";
    }
    filter.connected_since = query.moment("since").value_or(0);
    return wanted;
}

/// Reads some clients after the cursor, which it moves. False if a shard does not answer in time.
awaitable<bool> add_some(const ApiContext& api, const SharedWanted& wanted, std::size_t most,
                         ShardCursor& cursor, ShardPage& page) {
    const auto question = [wanted, most,
                           after = ClientPosition{cursor.user, cursor.session}](ShardAdmin& shard) {
        const Millis now = monotonic_now();
        BrokerAdmin& broker = shard.broker();
        return wanted->user
                   ? broker.clients_of(*wanted->user, wanted->filter, after.session, most, now)
                   : broker.clients(wanted->filter, after, most, now);
    };
    const auto found = co_await api.shards.ask_one(cursor.shard, question);
    if (!found) co_return false;
    for (const ClientDescription& client : found->clients) {
        page.entries.push_back(to_json(client, monotonic_now(), wall_now()));
        page.bytes += client.bytes();
    }
    cursor = found->next ? ShardCursor{cursor.shard, found->next->user, found->next->session}
                         : ShardCursor{.shard = cursor.shard + 1};
    co_return true;
}

}  // namespace

bool asks_for_a_list(const Query& query) {
    if (!query.has("user")) return true;
    const auto is_given = [&query](const char* name) { return query.has(name); };
    constexpr const char* of_a_list[] = {"address", "listener", "state", "since", "after", "limit"};
    return std::ranges::any_of(of_a_list, is_given);
}

awaitable<ApiReply> list_clients(const ApiContext& api, const Query& query) {
    const auto wanted = wanted_in(query);
    const auto most = page_size(query);
    ShardCursor cursor{.shard = wanted->user ? api.shards.home_of(*wanted->user) : 0};
    const auto end = wanted->user ? cursor.shard + 1 : api.shards.shards();
    if (const auto after = query.text("after"))
        cursor = ShardCursor::parse(*after, api.shards.shards(), ShardCursor::Within::clients);
    const auto add = [&api, &wanted](std::size_t left, ShardCursor& at, ShardPage& page) {
        return add_some(api, wanted, left, at, page);
    };
    co_return co_await reply_with_page("clients", most, cursor, end, add);
}

}  // namespace pulsegate
