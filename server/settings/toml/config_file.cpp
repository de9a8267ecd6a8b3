#include "server/settings/toml/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "protocol/utf8.h"
#include "server/base/text/lines.h"

namespace pulsegate {

namespace {

constexpr std::string_view blanks = " \t\r\f\v";
constexpr std::string_view of_names =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

std::string_view trimmed(std::string_view text) {
    const auto begin = text.find_first_not_of(blanks);
    if (begin == text.npos) return {};
    return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

std::string_view without_comment(std::string_view text) {
    return trimmed(text.substr(0, text.find('#')));
}

bool needs_no_quotes(std::string_view text) {
    if (text == "true" || text == "false") return true;
    return text.find_first_not_of("0123456789.+-_") == text.npos;
}

/// The right form of a value.
std::string in_form(std::string_view value) {
    if (value.empty()) return "\"...\"";
    const bool as_it_is = needs_no_quotes(value) || value.find_first_of("\"'[") == 0;
    return as_it_is ? std::string(value) : fmt::format("\"{}\"", value);
}

/// "true" or "false" for other words that mean it; or "".
std::string_view switch_meant(std::string_view word) {
    for (const char* yes : {"yes", "on", "True", "Yes", "On", "TRUE"})
        if (word == yes) return "true";
    for (const char* no : {"no", "off", "False", "No", "Off", "FALSE"})
        if (word == no) return "false";
    return "";
}

/// Without the quotes that word processors write.
std::string_view without_typographic_quotes(std::string_view text) {
    for (const std::string_view quote : {"“", "”", "„", "‘", "’"}) {
        if (text.starts_with(quote)) text.remove_prefix(quote.size());
        if (text.ends_with(quote)) text.remove_suffix(quote.size());
    }
    return text;
}

/// What can't be read of a line.
struct Unreadable {
    std::string what;
};

class SettingsFileReader {
public:
    SettingsFileReader(const FileFault& fault,
                       const std::function<std::string(const std::string&)>& meant,
                       const std::function<bool(const std::string&)>& is_number)
        : fault_(fault), meant_(meant), is_number_(is_number) {}

    std::vector<FileLine> read(const std::string& text) {
        Lines lines(text);
        while (lines.next()) {
            number_ = lines.number();
            rest_ = lines.line();
            try {
                read_line();
            } catch (const Unreadable& fault) {
                fault_(number_, fault.what);
                skips_list_ = in_list_ && rest_.find(']') == rest_.npos;
                needs_comma_ = false;
                in_list_ = false;
            }
        }
        if (in_list_) fault_(list_.line, unclosed());
        return std::move(found_);
    }

private:
    void read_line() {
        if (rest_.find('\0') != rest_.npos)
            throw Unreadable{"has a null character; save the file as UTF-8"};
        if (!valid_utf8(rest_)) throw Unreadable{"is not UTF-8; save the file as UTF-8"};
        skip_blanks();
        if (skips_list_) return skip_list();
        if (in_list_ && begins_setting()) {
            fault_(list_.line, unclosed());
            in_list_ = false;
            needs_comma_ = false;
        }
        if (in_list_) return read_items();
        if (!rest_.empty()) read_setting();
    }

    void read_setting() {
        if (rest_.front() == '[')
            throw Unreadable{fmt::format("{}: the file has no sections; remove the line",
                                         without_comment(rest_))};
        FileLine setting{.name = read_name(), .line = number_};
        skip_blanks();
        if (!rest_.starts_with('=')) throw Unreadable{no_equals_sign(setting.name)};
        rest_.remove_prefix(1);
        if (rest_.starts_with('='))
            throw Unreadable{fmt::format("{}: there are two '='; write {} = {}", setting.name,
                                         setting.name, in_form(without_comment(rest_.substr(1))))};
        skip_blanks();
        if (rest_.starts_with('[')) {
            rest_.remove_prefix(1);
            setting.is_list = true;
            list_ = std::move(setting);
            in_list_ = true;
            return read_items();
        }
        setting.values.push_back({read_value(setting.name), number_});
        skip_blanks();
        if (!rest_.empty()) throw Unreadable{surplus(setting)};
        found_.push_back(std::move(setting));
    }

    std::string read_name() {
        const auto end = std::min(rest_.find_first_not_of(of_names), rest_.size());
        std::string name(rest_.substr(0, end));
        if (name.empty())
            throw Unreadable{
                fmt::format("'{}' does not begin with the name of a setting; write "
                            "NAME = VALUE, or a # before a comment",
                            without_comment(rest_))};
        rest_.remove_prefix(end);
        return name;
    }

    std::string no_equals_sign(const std::string& name) const {
        const std::string known = meant_(name);
        if (known.empty())
            return fmt::format("unknown setting '{}'; --help lists the settings", name);
        const auto written = [&](std::string_view value) {
            return fmt::format("write {} = {}", known, in_form(without_comment(value)));
        };
        if (rest_.empty()) return fmt::format("{}: the value is missing; {}", name, written(""));
        if (rest_.front() == ':')
            return fmt::format("{}: there is a ':' instead of a '='; {}", name,
                               written(rest_.substr(1)));
        return fmt::format("{}: there is no '=' before the value; {}", name, written(rest_));
    }

    /// A text in quotes, or a number, or true or false; "" if there is nothing.
    std::string read_value(const std::string& name) {
        if (rest_.starts_with('"')) return read_quoted(name);
        if (rest_.starts_with('\'')) return read_literal(name);
        const auto end = std::min(rest_.find_first_of(in_list_ ? "#,]" : "#"), rest_.size());
        const std::string_view bare = trimmed(rest_.substr(0, end));
        if (!needs_no_quotes(bare)) throw Unreadable{no_quotes(name, bare)};
        rest_.remove_prefix(end);
        return std::string(bare);
    }

    std::string no_quotes(const std::string& name, std::string_view bare) const {
        const bool half = bare.ends_with('"') || bare.ends_with('\'');
        if (half) bare.remove_suffix(1);
        if (const auto meant = switch_meant(bare); !meant.empty())
            return fmt::format("{}: {} is not true or false; write {} = {}", name, bare, name,
                               meant);
        if (is_number_(name))
            return fmt::format("{}: {} is not a whole number; write digits, as in {} = 100", name,
                               bare, name);
        const auto text = without_typographic_quotes(bare);
        if (in_list_) return fmt::format("{}: {} is not in quotes; write \"{}\"", name, bare, text);
        if (bare.find(',') != bare.npos && bare.find_first_of("\"'") == bare.npos)
            return fmt::format(
                "{}: {} is not in quotes; write {} = \"{}\", or a list as {} = "
                "[\"...\", \"...\"]",
                name, bare, name, text, name);
        return fmt::format("{}: {} is not in quotes; write {} = \"{}\"", name, bare, name, text);
    }

    std::string read_quoted(const std::string& name) {
        std::string text;
        for (std::size_t i = 1; i < rest_.size(); ++i) {
            if (rest_[i] == '"') {
                rest_.remove_prefix(i + 1);
                return text;
            }
            if (rest_[i] == '\\') {
                ++i;
                if (i == rest_.size() || (rest_[i] != '"' && rest_[i] != '\\'))
                    throw Unreadable{
                        fmt::format("{}: the escape after \\ is unknown; write \\\\, or use single "
                                    "quotes instead of double quotes",
                                    name)};
            }
            text += rest_[i];
        }
        throw Unreadable{no_closing_quote(name, '"')};
    }

    std::string read_literal(const std::string& name) {
        const auto end = rest_.find('\'', 1);
        if (end == rest_.npos) throw Unreadable{no_closing_quote(name, '\'')};
        std::string text(rest_.substr(1, end - 1));
        rest_.remove_prefix(end + 1);
        return text;
    }

    std::string no_closing_quote(const std::string& name, char quote) const {
        return fmt::format("{}: {} has no closing quote; write a {} after the value", name,
                           trimmed(rest_), quote);
    }

    std::string surplus(const FileLine& setting) const {
        const std::string& name = setting.name;
        if (rest_.front() == ',')
            return fmt::format("{}: several values need a list; write {} = [\"{}\", ...]", name,
                               name, setting.values.front().text);
        return fmt::format(
            "{}: there is text after the value: {}; remove it, or write a # before a comment", name,
            rest_);
    }

    /// The rest of a list with a fault.
    void skip_list() {
        skips_list_ = !begins_setting() && rest_.find(']') == rest_.npos;
        if (begins_setting()) read_setting();
    }

    /// Of a list, up to its end or that of the line.
    void read_items() {
        for (skip_blanks(); !rest_.empty(); skip_blanks()) {
            if (rest_.starts_with(']')) return end_list();
            if (rest_.starts_with('['))
                throw Unreadable{list_.name + ": a list can't contain a list; write one list"};
            if (rest_.starts_with(',') || needs_comma_)
                throw Unreadable{list_.name +
                                 ": the values of the list are not separated by single commas; "
                                 "write [\"...\", \"...\"]"};
            list_.values.push_back({read_value(list_.name), number_});
            skip_blanks();
            needs_comma_ = !rest_.starts_with(',');
            if (!needs_comma_) rest_.remove_prefix(1);
        }
    }

    void end_list() {
        rest_.remove_prefix(1);
        skip_blanks();
        needs_comma_ = false;
        FileLine setting = std::move(list_);
        in_list_ = false;
        if (!rest_.empty())
            throw Unreadable{fmt::format(
                "{}: there is text after the list: {}; remove it, or write a # before a comment",
                setting.name, rest_)};
        if (setting.values.empty()) setting.values.push_back({"", setting.line});
        found_.push_back(std::move(setting));
    }

    /// Is this no value of the list that has begun, but another setting? Then its end was
    /// forgotten.
    bool begins_setting() const {
        const auto end = rest_.find_first_not_of(of_names);
        return end != rest_.npos && end > 0 && trimmed(rest_.substr(end)).starts_with('=');
    }

    std::string unclosed() const {
        return list_.name + ": the list is not closed; write a ] after its last value";
    }

    /// And a comment.
    void skip_blanks() {
        rest_.remove_prefix(std::min(rest_.find_first_not_of(blanks), rest_.size()));
        if (rest_.starts_with('#')) rest_ = {};
    }

    const FileFault& fault_;
    const std::function<std::string(const std::string&)>& meant_;
    const std::function<bool(const std::string&)>& is_number_;
    std::vector<FileLine> found_{};
    FileLine list_{};  ///< that is being read
    bool in_list_ = false;
    bool needs_comma_ = false;
    bool skips_list_ = false;
    std::string_view rest_{};  ///< of the line
    std::size_t number_ = 0;   ///< of the line
};

}  // namespace

std::vector<FileLine> read_settings_file(
    const std::string& text, const FileFault& fault,
    const std::function<std::string(const std::string& name)>& meant,
    const std::function<bool(const std::string& name)>& is_number) {
    return SettingsFileReader(fault, meant, is_number).read(text);
}

}  // namespace pulsegate
