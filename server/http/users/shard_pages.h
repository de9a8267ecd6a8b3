#pragma once

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "server/http/questions/shard_questions.h"
#include "server/http/serving/api_message.h"

namespace pulsegate {

/// A page ends after this many bytes, whatever `limit` says: names may have 64 KiB each.
constexpr std::size_t most_page_bytes = 1024 * 1024;

/// The entries of a page, in JSON.
struct ShardPage {
    boost::json::array entries{};
    std::size_t bytes = 0;
};

/// Replies with a page of up to `most` entries, as the member `name`, and with the `next` page. The
/// page goes through shards from that of the cursor to the one before `end`. `add(most, cursor,
/// page)` is a coroutine that adds up to so many entries after the cursor, and moves the cursor;
/// false if the shard does not answer in time.
///
/// It looks one entry beyond the page, so the last page has no `next`.
template <class Cursor, class Add>
boost::asio::awaitable<ApiReply> reply_with_page(std::string_view name, std::size_t most,
                                                 Cursor cursor, std::size_t end, Add& add) {
    ShardPage page;
    boost::json::array& entries = page.entries;
    std::optional<Cursor> next;
    while (cursor.shard < end && entries.size() <= most) {
        if (page.bytes >= most_page_bytes && !next) most = entries.size();
        if (entries.size() == most && !next) next = cursor;
        const auto left = std::max<std::size_t>(most - entries.size(), 1);
        if (!co_await add(left, cursor, page)) co_return shard_unavailable();
    }
    const bool has_more = next && entries.size() > most;
    if (has_more) entries.pop_back();
    boost::json::object body{{name, std::move(entries)}};
    if (has_more) body["next"] = next->text();
    co_return api_reply(body);
}

}  // namespace pulsegate
