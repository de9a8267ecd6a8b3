#pragma once

#include <spdlog/spdlog.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "server/base/clock.h"

namespace pulsegate {

/// Text from the network for a log line: in quotes, cut after 64 bytes, and whatever could end the
/// line, steer a terminal or change the direction of the text is escaped.
/// A view that is escaped when it is formatted, so that suppressed lines cost nothing.
struct Quoted {
    std::string_view text;
};
inline Quoted in_quotes(std::string_view text) { return {text}; }

/// What a line of the log is about, besides its message: fields of their own in a log as JSON. A
/// line does not have those that are empty.
struct LogFields {
    std::string client;
    std::string user;
    std::string address;
    std::string reason;
};

/// Why something was refused or has ended: a part of the message, and a field.
struct LoggedReason {
    std::string_view text;
    void tell(LogFields& fields) const { fields.reason = text; }
};
/// A user by the name alone: in quotes in the message, and a field.
struct LoggedUser {
    std::string_view name;
    void tell(LogFields& fields) const { fields.user = name; }
};
/// An address, perhaps with a port: a part of the message, and a field.
struct LoggedAddress {
    std::string text;
    void tell(LogFields& fields) const { fields.address = text; }
};

/// Are lines written with their fields? If not, nobody need find out what they are.
bool log_has_fields();
void set_log_has_fields(bool has_fields);

/// The fields of the line that this thread is logging; null: it has none.
const LogFields* fields_of_line();

/// Gives the lines that this thread logs these fields, as long as it lives.
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

/// Logs a line. Arguments that have a member `tell(LogFields&)` give it fields.
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

/// How many lines that peers can provoke one thread may log: 50 at once, and 1,000 a minute as long
/// as it lasts, so that an attack fills neither the disk nor the loop's time. It has no clock.
class LineBudget {
public:
    /// Is there room for one more line? The others are counted.
    bool take(Millis now);

    /// How many lines had no room, to be logged behind a line that had; 0 if it is too early to say
    /// so again.
    std::uint64_t suppressed(Millis now);

private:
    Millis full_at_ = 0;  ///< when all 50 have room again
    Millis report_at_ = 0;
    std::uint64_t suppressed_ = 0;
};

/// May this thread log one more line that a peer can provoke?
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
