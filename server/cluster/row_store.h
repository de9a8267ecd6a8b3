#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/cluster/row_change.h"

namespace pulsegate {

/// Where rows outlive the process, away from it. One thread uses it.
class RowStore {
public:
    enum class Answer : std::uint8_t {
        done,     ///< it has all of it
        away,     ///< no answer: it may have all of it or nothing
        full,     ///< it takes nothing that makes it grow
        fenced,   ///< the rows belong to another node now, for good
        emptied,  ///< it has lost all rows: `rewrite`
    };
    struct Result {
        Answer answer = Answer::done;
        std::string why{};  ///< a clause for the log
    };
    using Visit = std::function<void(const RowKey& key, std::string_view value)>;

    virtual ~RowStore() = default;

    /// Visits all rows. Throws std::runtime_error.
    virtual void read_rows(const Visit& visit) = 0;

    /// Makes all of the changes or none of them; each row is changed once at most. `may_overfill`:
    /// also if the store is full.
    virtual Result write(const std::vector<RowChange>& changes, bool may_overfill) = 0;

    /// Takes all rows anew, of a store that was emptied: some at a time, and at last none.
    virtual Result rewrite(const std::vector<RowChange>& rows) = 0;

    /// Once a second: is all well?
    virtual Result look() = 0;

    /// In order, with all that was written: another node may go on.
    virtual void leave() = 0;
};

}  // namespace pulsegate
