#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pulsegate::load {

/// A user's presence as a Pulsegate shows it in topics, events and answers.
struct UserPresence {
    std::string user;
    bool online = false;
    std::uint64_t version = 0;  ///< 0: the server does not know the user
};

/// Nothing if it is not such JSON.
std::optional<UserPresence> read_user_presence(std::string_view json);
std::optional<UserPresence> read_user_presence(const boost::json::value& json);

}  // namespace pulsegate::load
