#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/store/ledger/unit.h"

namespace pulsegate {

/// The messages that an owner is done with: all messages up to a stamp, and some later ones. It may
/// still wait for some of the earlier ones, because they came late.
struct Cursor {
    Stamp upto = 0;
    /// Ascending. The owner waits for those up to `upto`, and is done with the later ones.
    std::vector<Stamp> exceptions{};

    bool has_done(Stamp stamp) const;
    void add(const Done& done);

    /// The owner gets a message that it is done with, or that is older than `upto`.
    void reopen(Stamp stamp);

    bool operator==(const Cursor&) const = default;
};

/// The columns of a cursor. `upto` is a stamp before which the owner waits for nothing. `beyond`
/// has stamps as `encode_stamps` writes them: those later than the cursor that are done; then, if
/// the owner waits for earlier ones, these and the cursor itself, each with the highest bit set.
/// Programs that do not know such early stamps send the owner messages after `upto` again; they
/// lose none.
struct CursorRow {
    Stamp upto = 0;
    std::string beyond{};
};

CursorRow encode_cursor(const Cursor& cursor);
Cursor decode_cursor(Stamp upto, std::string_view beyond);

}  // namespace pulsegate
