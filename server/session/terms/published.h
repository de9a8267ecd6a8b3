#pragma once

#include <functional>

#include "server/session/terms/reach.h"

namespace pulsegate {

/// The result of a message that was not published by a client.
struct Published {
    bool refused = false;       ///< by the store: some receivers may not get it
    bool not_retained = false;  ///< although it should be, because a limit is reached
    Reach reach{};
};
using OnPublished = std::function<void(const Published&)>;

}  // namespace pulsegate
