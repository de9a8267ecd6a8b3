#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>

#include "wheel/ring.h"

namespace pulsegate {

/// A session whose client is disconnected, in the order in which that happened: in memory as a
/// SessionExpiry, or packed as a DormantRecord.
struct Absence
    : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    Absence(Tick ends, bool is_dormant) : ends(ends), bytes(0), is_dormant(is_dormant) {}

    const Tick ends;           ///< the session
    std::uint32_t bytes : 31;  ///< memory of the session meanwhile, without its queue
    const bool is_dormant : 1;
};

}  // namespace pulsegate
