#include "server/cluster/functions.h"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>
#include <vector>

namespace pulsegate {

namespace {

/// The number N of the line "-- version N", or 0.
unsigned version_of(std::string_view library) {
    constexpr std::string_view mark = "\n-- version ";
    unsigned version = 0;
    const std::size_t at = library.find(mark);
    if (at == std::string_view::npos) return 0;
    library.remove_prefix(at + mark.size());
    std::from_chars(library.data(), library.data() + library.size(), version);
    return version;
}

/// The code in an answer of FUNCTION LIST … WITHCODE. The answer has a list of names and values for
/// each library.
std::string_view code_in(const RedisReply& reply) {
    if (reply.items.size() != 1) return {};
    const auto& fields = reply.items.front().items;
    for (std::size_t i = 0; i + 1 < fields.size(); i += 2)
        if (fields[i].text == "library_code") return fields[i + 1].text;
    return {};
}

RedisReply call_functions(RedisConnection& redis, const std::vector<std::string_view>& words,
                          RedisConnection::Clock::time_point deadline) {
    RedisReply reply = redis.call(words, deadline);
    if (reply.is_error())
        throw std::runtime_error(
            fmt::format("{}: FUNCTION {}: {}; allow it to this user: ACL SETUSER NAME +function "
                        "+fcall",
                        redis.address(), words[1], reply.text));
    return reply;
}

}  // namespace

void load_functions(RedisConnection& redis, RedisConnection::Clock::time_point deadline) {
    const RedisReply there =
        call_functions(redis, {"FUNCTION", "LIST", "LIBRARYNAME", "pg1", "WITHCODE"}, deadline);
    const std::string_view code = code_in(there);
    if (!code.empty() && version_of(code) >= version_of(cluster_functions)) return;
    call_functions(redis, {"FUNCTION", "LOAD", "REPLACE", cluster_functions}, deadline);
}

}  // namespace pulsegate
