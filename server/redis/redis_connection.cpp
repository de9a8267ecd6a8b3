#include "server/redis/redis_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "server/redis/redis_remedy.h"

namespace pulsegate {

namespace {

using Clock = RedisConnection::Clock;
using Words = RedisConnection::Words;

void send(RedisStream& stream, std::initializer_list<std::string_view> words) {
    stream.send(Words(words.begin(), words.size()));
}

/// A reply that is no error. Throws RedisError.
RedisReply accepted(RedisStream& stream, Clock::time_point deadline) {
    RedisReply reply = stream.receive(deadline);
    if (reply.is_error())
        throw RedisError(fmt::format("Redis at {}: {}", stream.address(), with_remedy(reply)));
    return reply;
}

bool has_credentials(const RedisTarget& target) {
    return !target.user.empty() || !target.password.empty();
}

void send_login(RedisStream& stream, const RedisTarget& target) {
    if (target.user.empty())
        send(stream, {"AUTH", target.password});
    else
        send(stream, {"AUTH", target.user, target.password});
}

/// Throws RedisError if it is not a primary.
void check_role(const RedisStream& stream, const RedisReply& role) {
    const std::string name = role.items.empty() ? "" : role.items.front().text;
    if (name == "master") return;
    const bool names_primary = name == "slave" && role.items.size() > 2;
    std::string why = "is not a primary";
    if (names_primary)
        why = fmt::format("is a replica of {}:{}; name that one in cluster, too",
                          role.items[1].text, role.items[2].integer);
    if (name == "sentinel") why = "is a Sentinel; write redis+sentinel://HOST:PORT/NAME";
    throw RedisError(fmt::format("Redis at {} {}", stream.address(), why));
}

/// A server that has let us in.
struct Primary {
    std::unique_ptr<RedisStream> stream;
    std::string run_id{};
    std::string run{};
    std::string version{};
};

/// All questions go at once.
Primary log_in(const RedisAddress& address, const RedisTarget& target, const RedisTls* tls,
               Clock::time_point deadline) {
    Primary primary{std::make_unique<RedisStream>(address, tls, deadline)};
    RedisStream& stream = *primary.stream;
    if (has_credentials(target)) send_login(stream, target);
    send(stream, {"ROLE"});
    send(stream, {"INFO"});
    send(stream, {"CLIENT", "SETNAME", "pulsegate"});

    if (has_credentials(target)) accepted(stream, deadline);
    check_role(stream, accepted(stream, deadline));
    const RedisReply info = accepted(stream, deadline);
    stream.receive(deadline);  // the name is for people; an ACL may refuse it
    if (info_field(info.text, "loading") == "1")
        throw RedisLoadingError(fmt::format(
            "Redis at {} is still reading its data; wait until it has", stream.address()));
    primary.run_id = info_field(info.text, "run_id");
    primary.run = run_of(primary.run_id, info.text);
    primary.version = info_field(info.text, "redis_version");
    return primary;
}

/// Tries some addresses. Each has an equal part of the time that is left. Throws RedisLoadingError
/// if one of them may be usable soon.
template <class Try>
auto first_of(const std::vector<RedisAddress>& addresses, Clock::time_point deadline, Try attempt) {
    std::string troubles;
    bool is_loading = false;
    for (std::size_t left = addresses.size(); left > 0; --left) {
        const RedisAddress& address = addresses[addresses.size() - left];
        const auto now = Clock::now();
        try {
            return attempt(address, now + (deadline - now) / static_cast<int>(left));
        } catch (const RedisError& error) {
            const std::string trouble = error.what();
            is_loading = is_loading || dynamic_cast<const RedisLoadingError*>(&error) != nullptr;
            // All Sentinels may name the same primary.
            if (troubles.find(trouble) == std::string::npos)
                troubles += (troubles.empty() ? "" : "; ") + trouble;
        }
    }
    if (is_loading) throw RedisLoadingError(troubles);
    throw RedisError(troubles);
}

std::uint16_t port_in(std::string_view text) {
    std::uint16_t port = 0;
    std::from_chars(text.data(), text.data() + text.size(), port);
    return port;
}

/// What a Sentinel knows. It may have no password: then the one of Redis is not shown to it.
RedisAddress primary_by(const RedisAddress& sentinel, const RedisTarget& target,
                        const RedisTls* tls, Clock::time_point deadline) {
    RedisStream stream(sentinel, tls, deadline);
    const auto ask = [&] {
        send(stream, {"SENTINEL", "get-master-addr-by-name", target.sentinel_name});
    };
    ask();
    RedisReply reply = stream.receive(deadline);
    if (reply.is_error("NOAUTH") && has_credentials(target)) {
        send_login(stream, target);
        ask();
        accepted(stream, deadline);
        reply = stream.receive(deadline);
    }
    if (reply.is_error())
        throw RedisError(
            fmt::format("the Sentinel at {}: {}", stream.address(), with_remedy(reply)));
    if (reply.items.size() != 2)
        throw RedisError(fmt::format("the Sentinel at {} knows no primary named {}",
                                     stream.address(), target.sentinel_name));
    return {reply.items[0].text, port_in(reply.items[1].text)};
}

Primary find_primary(const RedisTarget& target, const RedisTls* tls, Clock::time_point deadline) {
    return first_of(target.addresses, deadline, [&](const RedisAddress& address, auto until) {
        if (target.sentinel_name.empty()) return log_in(address, target, tls, until);
        return log_in(primary_by(address, target, tls, until), target, tls, until);
    });
}

}  // namespace

RedisConnection::RedisConnection(const RedisTarget& target, Clock::time_point deadline)
    : tls_(target.tls ? std::make_unique<RedisTls>(target.ca_file) : nullptr) {
    Primary primary = find_primary(target, tls_.get(), deadline);
    stream_ = std::move(primary.stream);
    run_id_ = std::move(primary.run_id);
    run_ = std::move(primary.run);
    version_ = std::move(primary.version);
}

RedisReply RedisConnection::call(Words words, Clock::time_point deadline) {
    send(words);
    return receive(deadline);
}

void RedisConnection::send(Words words) { stream_->send(words); }

std::string info_field(std::string_view info, std::string_view name) {
    for (std::size_t begin = 0; begin < info.size();) {
        const auto end = std::min(info.find('\n', begin), info.size());
        std::string_view line = info.substr(begin, end - begin);
        begin = end + 1;
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.starts_with(name) && line.substr(name.size()).starts_with(':'))
            return std::string(line.substr(name.size() + 1));
    }
    return "";
}

/// Each promotion draws a new `master_replid`, and moves the last one to `master_replid2`. A
/// primary that was never promoted draws a new `master_replid` when its first replica comes, but
/// then the second one is only zeros.
std::string run_of(const std::string& run_id, std::string_view info) {
    const bool was_promoted =
        info_field(info, "master_replid2").find_first_not_of('0') != std::string::npos;
    return was_promoted ? run_id + '/' + info_field(info, "master_replid") : run_id;
}

}  // namespace pulsegate
