#pragma once

#include <boost/json/object.hpp>

#include "server/session/users/history.h"

namespace pulsegate {

/// An event as the HTTP API tells it. What does not apply is left out.
boost::json::object to_json(const HistoryEvent& event);

}  // namespace pulsegate
