#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace pulsegate::load {

/// Writes JSON in the order of the calls. Names are trusted, texts are escaped.
class JsonWriter {
public:
    JsonWriter& begin(std::string_view name = {}) { return open(name, '{', '}'); }
    JsonWriter& begin_list(std::string_view name = {}) { return open(name, '[', ']'); }

    JsonWriter& end() {
        const char bracket = closing_.back();
        closing_.pop_back();
        if (!empty_) new_line();
        text_ += bracket;
        empty_ = false;
        return *this;
    }

    JsonWriter& add(std::string_view name, std::string_view text) {
        next(name);
        quote(text);
        return *this;
    }
    JsonWriter& add(std::string_view name, const char* text) {
        return add(name, std::string_view(text));
    }
    template <class Number>
    requires std::integral<Number> || std::floating_point<Number> JsonWriter& add(
        std::string_view name, Number value) {
        next(name);
        if constexpr (std::same_as<Number, bool>)
            text_ += value ? "true" : "false";
        else if constexpr (std::integral<Number>)
            text_ += fmt::format("{}", value);
        else
            text_ += fmt::format("{:.9g}", value);
        return *this;
    }

    std::string take() && { return std::move(text_) + "\n"; }

private:
    JsonWriter& open(std::string_view name, char bracket, char closing) {
        next(name);
        text_ += bracket;
        closing_ += closing;
        empty_ = true;
        return *this;
    }

    void next(std::string_view name) {
        if (!empty_) text_ += ',';
        if (!closing_.empty()) new_line();
        empty_ = false;
        if (name.empty()) return;
        quote(name);
        text_ += ": ";
    }

    void new_line() {
        text_ += '\n';
        text_.append(2 * closing_.size(), ' ');
    }

    void quote(std::string_view text) {
        text_ += '"';
        for (const char c : text) {
            if (c == '"' || c == '\\') text_ += '\\';
            if (static_cast<unsigned char>(c) < 0x20)
                text_ += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
            else
                text_ += c;
        }
        text_ += '"';
    }

    std::string text_;
    std::string closing_;  // the brackets that are still to come, innermost last
    bool empty_ = true;    // nothing yet in the innermost
};

}  // namespace pulsegate::load
