#pragma once

#include <spdlog/common.h>

#include <cstddef>
#include <string>

#include "server/settings/config.h"

namespace pulsegate {

// Parse values of settings from the texts of the command line and the file. All of them throw
// ConfigError, which names the setting and shows valid values.

/// `500ms`, `30s`, `5m`, `24h`, `7d`
Millis parse_duration(const std::string& name, const std::string& text, Millis least, Millis most);

/// `65536`, `256KiB`, `1MiB`, `1GiB`
std::size_t parse_size(const std::string& name, const std::string& text, std::size_t least,
                       std::size_t most);

unsigned parse_count(const std::string& name, const std::string& text, unsigned least,
                     unsigned most);

/// `on` and `true`, `off` and `false`
bool parse_switch(const std::string& name, const std::string& text);

/// `wss://host:port/path?proxy-protocol`
ListenUrl parse_listen_url(const std::string& text);

/// An Origin as browsers state it, or `*`.
std::string parse_origin(const std::string& text);

/// `presence,login`
EventKinds parse_event_kinds(const std::string& name, const std::string& text);

/// The URL of the auth hook or the webhook. HTTP requests contain it as it is, so it must be
/// encoded already.
HttpUrl parse_hook_url(const std::string& name, const std::string& text);

/// True if rooms are for members only.
bool parse_rooms(const std::string& name, const std::string& text);
bool parse_presence_for(const std::string& name, const std::string& text);

/// The name of a user property, or "".
std::string parse_property_name(const std::string& name, const std::string& text);

spdlog::level::level_enum parse_level(const std::string& name, const std::string& text);
UserFrom parse_user_from(const std::string& name, const std::string& text);
LogFormat parse_log_format(const std::string& name, const std::string& text);
Fsync parse_fsync(const std::string& name, const std::string& text);

}  // namespace pulsegate
