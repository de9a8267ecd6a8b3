#pragma once

#include <cstddef>
#include <string_view>

namespace pulsegate {

/// Editors on Windows put a byte order mark before a file's text, which is not a part of it.
std::string_view without_byte_order_mark(std::string_view text);

/// Reads a file's text line by line. A line ends with LF or CRLF; the last one may lack its end.
class Lines {
public:
    explicit Lines(std::string_view text) : rest_(without_byte_order_mark(text)) {}

    /// Goes to the next line. False if there is none.
    [[nodiscard]] bool next();

    std::string_view line() const { return line_; }
    /// The line's number, from 1 on.
    std::size_t number() const { return number_; }

private:
    std::string_view rest_;
    std::string_view line_{};
    std::size_t number_ = 0;
};

/// The number of the first line with a null character; 0 if there is none. Normal text has none,
/// but text saved as UTF-16 does.
std::size_t line_with_null(std::string_view text);

}  // namespace pulsegate
