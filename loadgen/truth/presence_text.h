#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pulsegate::load {

/// The presence of a user as a Pulsegate tells watchers in the topic `presence/USER`.
struct PresenceText {
    std::string user;
    bool online = false;
    std::uint64_t version = 0;
    std::string cause;
    std::vector<std::string> devices;  ///< client identifiers
};

/// Nothing if it is not such JSON.
[[nodiscard]] std::optional<PresenceText> read_presence(std::string_view json);

/// What is wrong with it, if it must be about `user`; empty if nothing is. An online user may have
/// no devices: after a crash, the user gets time to come back.
[[nodiscard]] std::string fault_of(const PresenceText& text, std::string_view user);

}  // namespace pulsegate::load
