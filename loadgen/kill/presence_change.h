#pragma once

#include <boost/json/fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "loadgen/kill/presence_book.h"

namespace pulsegate::kill {

/// A user's presence as the gateway tells it.
struct PresenceChange {
    std::string user;
    PresenceBook::State state;
};

std::optional<PresenceChange> read_presence_change(std::string_view json);
std::optional<PresenceChange> read_presence_change(const boost::json::value& json);

}  // namespace pulsegate::kill
