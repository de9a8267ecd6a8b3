#pragma once

#include <string>
#include <vector>

#include "server/http/standby_admin.h"
#include "server/limits/drain.h"
#include "server/settings/config.h"

namespace pulsegate {

/// What a standby does for clients. Used from the main thread, unless a comment says otherwise.
class StandbyService {
public:
    virtual ~StandbyService() = default;

    /// Looks which node serves now. Called several times a second.
    virtual void look() = 0;
    /// Any thread may call it.
    virtual StandbyState state() = 0;
    /// Asks the clients to leave on these terms, in calls of `look`. Returns false if there is
    /// nothing to wait for.
    virtual bool begin_drain(const DrainTerms& terms) = 0;
    virtual bool has_drained() const = 0;
    /// Applies the live settings. Returns the faults, and changes nothing if there are any.
    virtual std::vector<std::string> reload(const Config& config) = 0;
};

}  // namespace pulsegate
