#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/cluster/row_change.h"

namespace pulsegate {

/// A store of rows outside the process. One thread uses it.
class RowStore {
public:
    enum class Answer : std::uint8_t {
        done,     ///< it has all changes
        away,     ///< no answer: it may have all changes or none
        full,     ///< it accepts no data that makes it grow
        fenced,   ///< the rows now belong to another node, permanently
        emptied,  ///< it has lost all rows: call `rewrite`
    };
    struct Result {
        Answer answer = Answer::done;
        std::string why{};  ///< a clause for the log
    };
    using Visit = std::function<void(const RowKey& key, std::string_view value)>;

    virtual ~RowStore() = default;

    /// Visits all rows. Throws std::runtime_error.
    virtual void read_rows(const Visit& visit) = 0;

    /// Makes all changes or none of them. Each row may be changed only once. `may_overfill`: also
    /// if the store is full.
    virtual Result write(const std::vector<RowChange>& changes, bool may_overfill) = 0;

    /// Fills an emptied store again with all rows: several rows per call, and no rows in the last
    /// call.
    virtual Result rewrite(const std::vector<RowChange>& rows) = 0;

    /// Call it once a second: checks the state.
    virtual Result look() = 0;

    /// Leaves in order, with everything written: another node may continue.
    virtual void leave() = 0;
};

}  // namespace pulsegate
