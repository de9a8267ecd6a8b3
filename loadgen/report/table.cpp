#include "loadgen/report/table.h"

#include <algorithm>

namespace pulsegate::load {

std::size_t columns_of(std::string_view text) {
    return static_cast<std::size_t>(std::ranges::count_if(
        text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string padded_left(const std::string& text, std::size_t width) {
    const auto columns = columns_of(text);
    return std::string(columns < width ? width - columns : 0, ' ') + text;
}

std::string padded_right(const std::string& text, std::size_t width) {
    const auto columns = columns_of(text);
    return text + std::string(columns < width ? width - columns : 0, ' ');
}

void TextTable::row(const std::string& label, const std::string& text) {
    line(padded_right(label, label_width_) + text);
}

void TextTable::cells(const std::string& label, const std::vector<std::string>& cells) {
    std::string text;
    for (const auto& cell : cells) text += padded_left(cell, cell_width_);
    row(label, text);
}

void TextTable::line(const std::string& text) {
    text_ += text;
    text_ += '\n';
}

}  // namespace pulsegate::load
