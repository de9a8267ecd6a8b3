#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace pulsegate {

/// A reply of Redis to a command (RESP2).
struct RedisReply {
    enum class Kind : std::uint8_t { nil, status, error, integer, text, array };

    Kind kind = Kind::nil;
    std::string text{};  ///< of a status, an error or a text
    std::int64_t integer = 0;
    std::vector<RedisReply> items{};

    bool is_error() const { return kind == Kind::error; }
    /// True if it is an error that begins with the word `code`, such as "NOAUTH".
    bool is_error(std::string_view code) const {
        return is_error() && text.starts_with(code) &&
               (text.size() == code.size() || text[code.size()] == ' ');
    }
};

/// There is no connection, or no answer in time. The message names the address, the cause and, if
/// there is one, the remedy.
class RedisError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Redis has started, and still reads its data.
class RedisLoadingError : public RedisError {
public:
    using RedisError::RedisError;
};

}  // namespace pulsegate
