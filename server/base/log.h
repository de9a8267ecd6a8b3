#pragma once

#include <spdlog/spdlog.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "server/base/clock.h"

namespace pulsegate {

/// Text from the network for a log line: in quotes, cut after 64 bytes, without characters that
/// could end the line, control a terminal or change the direction of text. It is a view that is
/// escaped when formatted, so suppressed lines cost nothing.
struct Quoted {
    std::string_view text;
};
inline Quoted in_quotes(std::string_view text) { return {text}; }

/// The fields of a log line in a JSON log, besides its message. Empty fields are left out.
struct LogFields {
    std::string client;
    std::string user;
    std::string address;
    std::string reason;
};

/// The reason of a refusal or an end: a part of the message, and a field.
struct LoggedReason {
    std::string_view text;
    void tell(LogFields& fields) const { fields.reason = text; }
};
/// A user by name: in quotes in the message, and a field.
struct LoggedUser {
    std::string_view name;
    void tell(LogFields& fields) const { fields.user = name; }
};
/// An address, perhaps with a port: a part of the message, and a field.
struct LoggedAddress {
    std::string text;
    void tell(LogFields& fields) const { fields.address = text; }
};

/// True if lines are written with their fields. If not, callers need not look them up.
bool log_has_fields();
void set_log_has_fields(bool has_fields);

/// The fields of the line that this thread is logging, or null.
const LogFields* fields_of_line();

/// Adds these fields to the lines that this thread logs, until it is destroyed.
class LineWithFields {
public:
    explicit LineWithFields(LogFields fields);
    ~LineWithFields();
    LineWithFields(const LineWithFields&) = delete;
    LineWithFields& operator=(const LineWithFields&) = delete;

private:
    const LogFields fields_;
    const LogFields* const before_;
};

/// Logs a line. Arguments with a member `tell(LogFields&)` add fields to it.
template <class... Args>
void log_line(spdlog::level::level_enum level, fmt::format_string<Args...> format, Args&&... args) {
    if (!spdlog::should_log(level)) return;
    LogFields fields;
    const auto tell = [&fields](const auto& argument) {
        if constexpr (requires { argument.tell(fields); }) argument.tell(fields);
    };
    if (log_has_fields()) (tell(args), ...);
    const LineWithFields line(std::move(fields));
    spdlog::log(level, format, std::forward<Args>(args)...);
}

/// Limits the log lines of one thread that peers can provoke: 50 at once, and 1,000 a minute in the
/// long run. So an attack fills neither the disk nor the loop's time. It has no clock.
class LineBudget {
public:
    /// True if there is room for one more line. Otherwise counts the line.
    bool take(Millis now);

    /// The number of lines without room, to be logged after a line with room; 0 if the last report
    /// was too recent.
    std::uint64_t suppressed(Millis now);

private:
    Millis full_at_ = 0;  ///< when there is room for all 50 again
    Millis report_at_ = 0;
    std::uint64_t suppressed_ = 0;
};

/// True if this thread may log one more line that a peer can provoke.
bool log_has_room();

/// Logs a line that a peer can provoke, within the limit of `log_has_room`.
template <class... Args>
void log_limited(spdlog::level::level_enum level, fmt::format_string<Args...> format,
                 Args&&... args) {
    if (!spdlog::should_log(level) || !log_has_room()) return;
    log_line(level, format, std::forward<Args>(args)...);
}

}  // namespace pulsegate

template <>
struct fmt::formatter<pulsegate::LoggedReason> : fmt::formatter<std::string_view> {
    auto format(const pulsegate::LoggedReason& reason, format_context& context) const {
        return fmt::formatter<std::string_view>::format(reason.text, context);
    }
};

template <>
struct fmt::formatter<pulsegate::LoggedAddress> : fmt::formatter<std::string_view> {
    auto format(const pulsegate::LoggedAddress& address, format_context& context) const {
        return fmt::formatter<std::string_view>::format(address.text, context);
    }
};

template <>
struct fmt::formatter<pulsegate::Quoted> {
    constexpr auto parse(format_parse_context& context) { return context.begin(); }
    format_context::iterator format(pulsegate::Quoted quoted, format_context& context) const;
};

template <>
struct fmt::formatter<pulsegate::LoggedUser> : fmt::formatter<pulsegate::Quoted> {
    auto format(const pulsegate::LoggedUser& user, format_context& context) const {
        return fmt::formatter<pulsegate::Quoted>::format({user.name}, context);
    }
};
