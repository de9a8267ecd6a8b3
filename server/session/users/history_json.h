#pragma once

#include <boost/json/object.hpp>

#include "server/session/users/history.h"

namespace pulsegate {

/// An event in the form of the HTTP API. Members that do not apply are left out.
boost::json::object to_json(const HistoryEvent& event);

}  // namespace pulsegate
