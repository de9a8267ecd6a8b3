#include "server/redis/redis_terms.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>

#include "server/redis/redis_remedy.h"

namespace pulsegate {

namespace {

constexpr int oldest_version = 7;  // functions

[[noreturn]] void refuse(const RedisConnection& redis, const std::string& why) {
    throw RedisTermsError(fmt::format("Redis at {}: {}", redis.address(), why));
}

int major_version(std::string_view text) {
    int number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

std::string all_info(RedisConnection& redis, RedisConnection::Clock::time_point deadline) {
    const RedisReply info = redis.call({"INFO"}, deadline);
    if (info.is_error()) refuse(redis, with_remedy(info));
    return info.text;
}

std::string setting_of(RedisConnection& redis, std::string_view name,
                       RedisConnection::Clock::time_point deadline) {
    const RedisReply found = redis.call({"CONFIG", "GET", name}, deadline);
    if (found.is_error())
        refuse(redis, fmt::format("its setting {} can't be read: {}", name, with_remedy(found)));
    return found.items.size() == 2 ? found.items[1].text : "";
}

void check_version(const RedisConnection& redis) {
    if (major_version(redis.version()) >= oldest_version) return;
    refuse(redis,
           fmt::format("it is version {}, and Pulsegate needs Redis 7 or later", redis.version()));
}

/// There, a call can't change the rows of several partitions.
void check_mode(const RedisConnection& redis, std::string_view info) {
    if (info_field(info, "redis_mode") != "cluster") return;
    refuse(redis,
           "it is part of a Redis Cluster; Pulsegate needs a Redis by itself, with replicas and "
           "optionally Sentinels (cluster-enabled no)");
}

/// Redis would delete what it likes.
void check_eviction(const RedisConnection& redis, std::string_view info) {
    const std::string policy = info_field(info, "maxmemory_policy");
    if (policy == "noeviction") return;
    refuse(redis, fmt::format("maxmemory-policy is {}, so a full Redis deletes messages; run "
                              "CONFIG SET maxmemory-policy noeviction",
                              policy));
}

void check_durability(RedisConnection& redis, std::string_view info, RedisDurability asked,
                      RedisConnection::Clock::time_point deadline) {
    if (asked == RedisDurability::none) return;
    const std::string_view name = asked == RedisDurability::always ? "always" : "everysec";
    const bool is_logged = info_field(info, "aof_enabled") == "1";
    const std::string syncs = setting_of(redis, "appendfsync", deadline);
    if (!is_logged || (syncs != name && syncs != "always"))
        refuse(redis, fmt::format("its durability is lower than cluster-durability = {} requires "
                                  "(appendonly is {}, appendfsync is {}); run CONFIG SET "
                                  "appendonly yes, CONFIG SET appendfsync {}, or require less",
                                  name, is_logged ? "yes" : "no", syncs, name));
    if (setting_of(redis, "no-appendfsync-on-rewrite", deadline) == "yes")
        refuse(redis,
               "it does not sync its file during a rewrite, which may take minutes; run CONFIG SET "
               "no-appendfsync-on-rewrite no, or require less with cluster-durability");
}

/// One that has not read the data yet is connected, too.
int replicas_online(std::string_view info) {
    int online = 0;
    for (int i = 0;; ++i) {
        const std::string replica = info_field(info, fmt::format("slave{}", i));
        if (replica.empty()) return online;
        if (replica.find("state=online") != std::string::npos) ++online;
    }
}

void check_replicas(const RedisConnection& redis, std::string_view info, unsigned asked) {
    const int online = replicas_online(info);
    if (online >= static_cast<int>(asked)) return;
    refuse(redis, fmt::format("{} replicas are connected, but cluster-replicas requires {}; "
                              "connect more with REPLICAOF, or ask for fewer",
                              online, asked));
}

}  // namespace

void check_terms(RedisConnection& redis, const RedisTerms& terms,
                 RedisConnection::Clock::time_point deadline) {
    check_version(redis);
    const std::string info = all_info(redis, deadline);
    check_mode(redis, info);
    check_eviction(redis, info);
    check_durability(redis, info, terms.durability, deadline);
    check_replicas(redis, info, terms.replicas);
}

}  // namespace pulsegate
