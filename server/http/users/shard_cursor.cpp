#include "server/http/users/shard_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "server/base/hash.h"
#include "server/http/serving/bad_request.h"

namespace pulsegate {

namespace {

/// Hides the hashes of names.
std::uint64_t masked(std::uint64_t hash) {
    return hash ^ keyed_hash("where the users of a page are");
}

/// Takes the number up to the separator, or the end, off the text. False if there is none.
template <class Number>
bool take_cursor_number(std::string_view& text, Number& to, int base) {
    const auto digits = text.substr(0, text.find('-'));
    text.remove_prefix(std::min(text.size(), digits.size() + 1));
    const auto* const end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, to, base);
    return read.ec == std::errc() && read.ptr == end;
}

}  // namespace

std::string ShardCursor::text() const {
    std::string whole = fmt::format("{}-{}-{:x}", shard, user.version, masked(user.user));
    if (session != 0) whole += fmt::format("-{}", session);
    return whole;
}

ShardCursor ShardCursor::parse(std::string_view text, std::size_t shards, Within within) {
    ShardCursor cursor;
    bool is_whole = take_cursor_number(text, cursor.shard, 10) &&
                    take_cursor_number(text, cursor.user.version, 10) &&
                    take_cursor_number(text, cursor.user.user, 16);
    if (is_whole && !text.empty() && within == Within::clients)
        is_whole = take_cursor_number(text, cursor.session, 10) && cursor.session != 0;
    if (!is_whole || !text.empty() || cursor.shard >= shards)
        throw BadRequest(ApiError::bad_parameter, "'after' is not the 'next' of an earlier answer");
    cursor.user.user = masked(cursor.user.user);
    return cursor;
}

}  // namespace pulsegate
