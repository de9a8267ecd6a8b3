#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>

#include "wheel/ring.h"

namespace pulsegate {

/// A session with a disconnected client, in the order of the disconnects: in memory as a
/// SessionExpiry, or packed as a PackedRecord.
struct Absence
    : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    Absence(Tick ends, bool is_packed)
        : ends(ends), bytes(0), is_awaited(false), is_packed(is_packed) {}

    const Tick ends;           ///< when the session ends, in the time of its SessionTable
    std::uint32_t bytes : 30;  ///< memory of the absent session, without its queue
    /// It was connected when the process died, and still counts as connected, so that it may come
    /// back; see SessionTable::await.
    bool is_awaited : 1;
    const bool is_packed : 1;
};

}  // namespace pulsegate
