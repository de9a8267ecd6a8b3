#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "server/base/clock.h"
#include "server/http/questions/shard_questions.h"
#include "server/http/serving/bad_request.h"
#include "server/http/serving/query.h"
#include "server/http/users/bans.h"
#include "server/http/users/shard_pages.h"
#include "server/limits/address_limits.h"
#include "server/limits/client_limits.h"

namespace pulsegate {

namespace json = boost::json;
using boost::asio::awaitable;

namespace {

/// The ban after which a page begins, as in `next` and `after`. Pages go through the bans of each
/// shard in the order in which they were set. The bans of addresses follow after the last shard.
struct BanCursor {
    std::size_t shard = 0;
    std::uint64_t number = 0;

    std::string text() const { return fmt::format("{}-{}", shard, number); }
    static BanCursor parse(std::string_view text, std::size_t end);
};

BanCursor BanCursor::parse(std::string_view text, std::size_t end) {
    BanCursor cursor;
    const auto* const last = text.data() + text.size();
    const auto shard = std::from_chars(text.data(), last, cursor.shard);
    const bool has_number = shard.ec == std::errc() && shard.ptr != last && *shard.ptr == '-';
    const auto* const digits = has_number ? shard.ptr + 1 : last;
    const auto number = std::from_chars(digits, last, cursor.number);
    if (number.ec != std::errc() || number.ptr != last || cursor.shard >= end)
        throw BadRequest(ApiError::bad_parameter, "'after' is not the 'next' of an earlier answer");
    return cursor;
}

json::object ban_json(const Ban& ban) {
    json::object one;
    if (!ban.address.empty()) one["address"] = ban.address;
    if (!ban.user.empty()) one["user"] = ban.user;
    if (!ban.client.empty()) one["client"] = ban.client;
    one["by"] = ban.cause.ordered ? "administrator" : "gateway";
    if (!ban.cause.reason.empty()) one["reason"] = ban.cause.reason;
    if (ban.left) one["ends"] = rfc3339(wall_now() + *ban.left);
    return one;
}

/// Adds some bans after the cursor, which it moves. False if the shard does not answer in time.
awaitable<bool> add_some_bans(const ApiContext& api, const std::optional<std::string>& user,
                              std::size_t most, BanCursor& cursor, ShardPage& page) {
    const auto question = [user, most, after = cursor.number](ShardAdmin& shard) {
        return shard.client_limits().bans(user, after, most, monotonic_now());
    };
    std::optional<BanPage> found;
    if (cursor.shard == api.shards.shards())
        found = api.address_limits.bans(cursor.number, most, monotonic_now());
    else
        found = co_await api.shards.ask_one(cursor.shard, question);
    if (!found) co_return false;
    for (const Ban& ban : found->bans) page.entries.push_back(ban_json(ban));
    page.bytes += found->bytes;
    cursor =
        found->next ? BanCursor{cursor.shard, *found->next} : BanCursor{.shard = cursor.shard + 1};
    co_return true;
}

}  // namespace

awaitable<ApiReply> list_bans(const ApiContext& api, const ApiRequest& request) {
    const Query& query = request.query;
    const auto user = query.text("user");
    const auto most = page_size(query);
    BanCursor cursor{.shard = user ? api.shards.home_of(*user) : 0};
    const auto end = user ? cursor.shard + 1 : api.shards.shards() + 1;
    if (const auto after = query.text("after")) cursor = BanCursor::parse(*after, end);
    const auto add = [&api, &user](std::size_t left, BanCursor& at, ShardPage& page) {
        return add_some_bans(api, user, left, at, page);
    };
    co_return co_await reply_with_page("bans", most, cursor, end, add);
}

}  // namespace pulsegate
