#include "server/base/log_format.h"

#include <spdlog/pattern_formatter.h>

#include <boost/json/serialize.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "protocol/utf8.h"
#include "server/base/log.h"

namespace pulsegate {

namespace {

constexpr const char* time_pattern = "%Y-%m-%dT%H:%M:%S.%e%z";

/// A formatter that does not end the line, because the writer does.
std::unique_ptr<spdlog::formatter> by_pattern(const std::string& pattern) {
    return std::make_unique<spdlog::pattern_formatter>(pattern, spdlog::pattern_time_type::local,
                                                       "");
}

/// Replaces each byte that is not UTF-8, because JSON must be UTF-8.
std::string as_utf8(std::string_view text) {
    std::string valid;
    valid.reserve(text.size());
    while (!text.empty()) {
        const auto [code, size] = first_character(text);
        if (size == 0)
            valid += "\uFFFD";
        else
            valid += text.substr(0, size);
        text.remove_prefix(size == 0 ? 1 : size);
    }
    return valid;
}

/// Each line is an object of JSON.
class JsonLines final : public spdlog::formatter {
public:
    void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
        spdlog::memory_buf_t time;
        time_->format(message, time);
        put(out, "{", "time", {time.data(), time.size()});
        const auto level = spdlog::level::to_string_view(message.level);
        put(out, ",", "level", {level.data(), level.size()});
        put(out, ",", "message", {message.payload.data(), message.payload.size()});
        if (const LogFields* const fields = fields_of_line()) put_all(out, *fields);
        append(out, "}");
    }

    std::unique_ptr<spdlog::formatter> clone() const override {
        return std::make_unique<JsonLines>();
    }

private:
    static void put_all(spdlog::memory_buf_t& out, const LogFields& fields) {
        put_name(out, "client", fields.client);
        put_name(out, "user", fields.user);
        put_name(out, "address", fields.address);
        put_name(out, "reason", fields.reason);
    }

    /// Cuts the name, because names of 64 KB would fill a disk quickly.
    static void put_name(spdlog::memory_buf_t& out, std::string_view member,
                         std::string_view name) {
        constexpr std::size_t longest = 1024;
        if (name.empty()) return;
        if (name.size() <= longest) return put(out, ",", member, name);
        put(out, ",", member, std::string(first_characters(name, longest)) + "…");
    }

    static void put(spdlog::memory_buf_t& out, std::string_view before, std::string_view member,
                    std::string_view value) {
        append(out, before);
        append(out, boost::json::serialize(member));
        append(out, ":");
        append(out, boost::json::serialize(std::string_view(as_utf8(value))));
    }

    static void append(spdlog::memory_buf_t& out, std::string_view text) {
        out.append(text.data(), text.data() + text.size());
    }

    const std::unique_ptr<spdlog::formatter> time_ = by_pattern(time_pattern);
};

}  // namespace

std::unique_ptr<spdlog::formatter> log_formatter(LogFormat format) {
    if (format == LogFormat::json) return std::make_unique<JsonLines>();
    return by_pattern(std::string(time_pattern) + " %l %v");
}

}  // namespace pulsegate
