#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pulsegate::load {

/// The width of a text on a terminal: fmt counts bytes, and "µ" has two.
std::size_t columns_of(std::string_view text);

std::string padded_left(const std::string& text, std::size_t width);
std::string padded_right(const std::string& text, std::size_t width);

/// Lines of a report: a label, and text or aligned cells.
class TextTable {
public:
    TextTable(std::size_t label_width, std::size_t cell_width)
        : label_width_(label_width), cell_width_(cell_width) {}

    void row(const std::string& label, const std::string& text);
    void cells(const std::string& label, const std::vector<std::string>& cells);
    void line(const std::string& text = {});

    std::string take() && { return std::move(text_); }

private:
    const std::size_t label_width_;
    const std::size_t cell_width_;
    std::string text_;
};

}  // namespace pulsegate::load
