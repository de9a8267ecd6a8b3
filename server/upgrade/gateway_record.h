#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/secrets/secret_bytes.h"
#include "server/base/secrets/wiping_allocator.h"

namespace pulsegate {

// A gateway's data that is only in memory, besides its clients, for the new process in an upgrade.
// As in client_record.h, times are durations, and values that are not stated are zero or empty.
// Users and clients are fingerprints. Their key is in the store, which both processes use.

struct BanRecord {
    std::string address{};
    std::string user{};  ///< empty for an address
    std::string client{};
    bool is_ordered = false;             ///< by the administrator
    std::optional<std::int64_t> left{};  ///< ms until it ends; nothing: permanent
    std::string reason{};

    bool operator==(const BanRecord&) const = default;
};

/// Recent counts by key, see RecentCounts.
struct CountsRecord {
    struct Counted {
        std::string address{};
        std::uint64_t fingerprint = 0;
        std::uint32_t present = 0;
        std::uint32_t past = 0;

        bool operator==(const Counted&) const = default;
    };

    std::int64_t age = 0;                                      ///< ms of the present minute
    std::vector<Counted, WipingAllocator<Counted>> counted{};  ///< guesses are secrets

    bool operator==(const CountsRecord&) const = default;
};

/// One shard's counts of its clients.
struct ClientCountsRecord {
    CountsRecord flaps{};
    CountsRecord takeovers{};

    bool operator==(const ClientCountsRecord&) const = default;
};

struct TicketKeysRecord {
    std::int64_t age = 0;  ///< ms of the present key
    SecretBytes present{};
    SecretBytes past{};

    bool operator==(const TicketKeysRecord&) const = default;
};

/// The answer to a request with an `Idempotency-Key`, see RepeatedRequests.
struct AnswerRecord {
    std::string key{};
    std::string body_hash{};
    std::int64_t age = 0;  ///< ms since the request
    std::string answer{};

    bool operator==(const AnswerRecord&) const = default;
};

struct GatewayRecord {
    std::vector<BanRecord> bans{};
    CountsRecord guesses{};
    CountsRecord different_guesses{};
    CountsRecord failures{};
    std::vector<ClientCountsRecord> shards{};
    std::int64_t login_wait = 0;  ///< ns by which the logins are ahead, see LoginRate
    std::optional<TicketKeysRecord> ticket_keys{};
    std::vector<AnswerRecord> answers{};  ///< the oldest first

    bool operator==(const GatewayRecord&) const = default;
};

/// A part of the history of one shard's users, in order.
struct HistoryRecord {
    struct Event {
        std::uint64_t user = 0;
        std::uint32_t account = 0;
        bool is_refused = false;  ///< it is charged to an address
        std::uint8_t kind = 0;
        std::int64_t time = 0;  ///< Unix time in ms
        std::uint32_t count = 0;
        std::int64_t lasted = 0;
        std::int64_t silence = 0;
        std::uint8_t cause = 0;
        std::uint8_t reason = 0;
        std::uint8_t version = 0;  ///< of MQTT
        std::string client{};
        std::string address{};
        std::string listener{};
        std::string why{};

        bool operator==(const Event&) const = default;
    };

    std::uint32_t shard = 0;
    std::vector<Event> events{};

    bool operator==(const HistoryRecord&) const = default;
};

/// Encodes a record as bytes, like a client's. A gateway's record contains secrets, so wipe it
/// after use.
std::string encode(const GatewayRecord& record);
std::string encode(const HistoryRecord& record);

/// Nothing if the bytes are damaged, or come from a version with fields that this one can't ignore.
std::optional<GatewayRecord> decode_gateway(std::string_view bytes);
std::optional<HistoryRecord> decode_history(std::string_view bytes);

}  // namespace pulsegate
