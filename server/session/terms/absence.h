#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>

#include "wheel/ring.h"

namespace pulsegate {

/// A session whose client is disconnected, in the order in which that happened: in memory as a
/// SessionExpiry, or packed as a DormantRecord.
struct Absence
    : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    Absence(Tick ends, bool is_dormant)
        : ends(ends), bytes(0), is_awaited(false), is_dormant(is_dormant) {}

    const Tick ends;           ///< the session
    std::uint32_t bytes : 30;  ///< memory of the session meanwhile, without its queue
    /// Was connected when the process died, and may come back as if it still were: it is not away
    /// yet, see SessionTable::await.
    bool is_awaited : 1;
    const bool is_dormant : 1;
};

}  // namespace pulsegate
