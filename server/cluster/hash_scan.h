#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "server/redis/redis_connection.h"

namespace pulsegate {

/// Reads a hash of Redis in pages of a few megabytes, however large its values are. A node that
/// reads many rows sends heartbeats between the pages, so no page may take long.
class HashScan {
public:
    using Deadline = RedisConnection::Clock::time_point;
    using Visit = std::function<void(const std::string& field, std::string_view value)>;

    /// `redis` must outlive it.
    HashScan(RedisConnection& redis, std::string hash) : redis_(redis), hash_(std::move(hash)) {}

    bool is_done() const { return is_done_; }
    /// It may visit a field that an earlier page had. Throws RedisError.
    void read_page(Deadline deadline, const Visit& visit);

private:
    void choose_count(std::size_t fields, std::size_t bytes);

    RedisConnection& redis_;
    const std::string hash_;
    std::string cursor_ = "0";
    std::size_t count_ = 50;  ///< fields in a page, about; the first page shows how large they are
    bool is_done_ = false;
};

}  // namespace pulsegate
