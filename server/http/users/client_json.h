#pragma once

#include <boost/json/object.hpp>

#include "server/base/clock.h"
#include "server/session/client_description.h"

namespace pulsegate {

/// A client as `/api/v1/clients` shows it, without its filters.
boost::json::object to_json(const ClientDescription& client, Millis now, WallMillis wall);

}  // namespace pulsegate
