#pragma once

#include <algorithm>
#include <array>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/clock.h"
#include "server/http/questions/api_context.h"
#include "server/upgrade/gateway_record.h"

namespace pulsegate {

/// Remembers the answers to requests with an `Idempotency-Key`, so that a repeated request is not
/// carried out again. It keeps only answers to requests that were carried out, in memory, for ten
/// minutes; if there are too many, it drops the oldest earlier. It has no clock.
class RepeatedRequests {
public:
    using BodyHash = std::array<unsigned char, 32>;
    static constexpr Millis kept = 10 * 60 * 1000;
    static constexpr std::size_t most_keys = 10'000;
    static constexpr std::size_t most_bytes = 16 * 1024 * 1024;

    enum class Verdict : std::uint8_t {
        is_new,       ///< the request is under way now: `finish` it
        is_repeated,  ///< it was answered
        under_way,    ///< the first request is not answered yet
        other_body,   ///< the key was used for another request
    };

    Verdict begin(const std::string& key, const BodyHash& body, Millis now);

    /// The answer to the request with this key.
    const std::string& answer(const std::string& key) const { return by_key_.at(key)->answer; }

    /// Without an answer, the request was not carried out and may be tried again.
    void finish(const std::string& key, std::optional<std::string> answer);

    /// With false, each new key is `under_way` from now on.
    void admit_new(bool admits) { admits_new_ = admits; }
    bool are_answered() const { return std::ranges::all_of(entries_, &Entry::is_answered); }

    /// The answers, for the next process in an upgrade.
    std::vector<AnswerRecord> describe(Millis now) const;
    void adopt(const std::vector<AnswerRecord>& answers, Millis now);

    std::size_t bytes() const { return bytes_; }
    std::size_t size() const { return by_key_.size(); }

private:
    struct Entry {
        std::string key;
        BodyHash body{};
        Millis began = 0;
        bool is_answered = false;
        std::string answer{};

        std::size_t bytes() const { return sizeof *this + 2 * key.size() + answer.size(); }
    };
    using Entries = std::list<Entry>;

    void drop(Entries::iterator entry);
    void make_room(Millis now);

    Entries entries_;  ///< in the order in which they began
    std::map<std::string, Entries::iterator, std::less<>> by_key_;
    std::size_t bytes_ = 0;
    bool admits_new_ = true;
};

/// Answers a request that may have an `Idempotency-Key`: with what `act` answers, or with what it
/// has answered a request with the same key, token, path and body.
boost::asio::awaitable<ApiReply> answer_once(
    const ApiContext& api, const ApiRequest& request,
    boost::asio::awaitable<ApiReply> (*act)(const ApiContext&, const ApiRequest&));

}  // namespace pulsegate
