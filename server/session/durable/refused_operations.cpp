#include "server/session/durable/refused_operations.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "server/base/hash.h"
#include "server/base/overloaded.h"
#include "server/session/durable/operation_cost.h"

namespace pulsegate {

namespace {

/// A row that some operations replace as a whole: a row of a user, of an owner's absence, of a
/// member's position or of a retained message.
struct ReplacedRow {
    enum class Table : std::uint8_t { user, away, absence, retained };

    Table table;
    OwnerId owner = 0;
    std::string_view name{};

    bool operator==(const ReplacedRow&) const = default;
};

struct ReplacedRowHash {
    using is_avalanching = void;

    std::size_t operator()(const ReplacedRow& row) const {
        return keyed_hash(std::uint64_t{row.owner} << 8 | static_cast<std::uint8_t>(row.table),
                          row.name);
    }
};

using ReplacedTable = ReplacedRow::Table;

/// The row that the operation replaces. Nothing if it changes other rows, or depends on the old
/// content.
const auto row_that_is_replaced = Overloaded{
    [](const PutUser& put) {
        const bool is_whole = put.limit != PutUser::limit_as_stored;
        return is_whole ? std::optional(ReplacedRow{ReplacedTable::user, 0, put.name})
                        : std::nullopt;
    },
    [](const DropUser& drop) {
        return std::optional(ReplacedRow{ReplacedTable::user, 0, drop.name});
    },
    [](const PutRoomPosition& put) {
        return std::optional(ReplacedRow{ReplacedTable::away, 0, put.user});
    },
    [](const DropRoomPosition& drop) {
        return std::optional(ReplacedRow{ReplacedTable::away, 0, drop.user});
    },
    [](const PutSessionExpiry& put) {
        return std::optional(ReplacedRow{ReplacedTable::absence, put.owner});
    },
    [](const DropSessionExpiry& drop) {
        return std::optional(ReplacedRow{ReplacedTable::absence, drop.owner});
    },
    [](const PutRetained& put) {
        return std::optional(ReplacedRow{ReplacedTable::retained, 0, put.message->topic});
    },
    [](const DropRetained& drop) {
        return std::optional(ReplacedRow{ReplacedTable::retained, 0, drop.topic});
    },
    [](const OneOf<PutMessage, PutReceiver, Done, PutOwner, EndOwner, RetireOwner, PutSubscription,
                   MarkRetainedOwed, DropSubscription, PutIncoming, DropIncoming, PutExchange,
                   ReleaseExchange, DropExchange, PutWill, DropWill, PutDelayed, CancelDelayed,
                   DropDelayed, PutBan, DropBan, DropEndedBans, PutRevocation, PutMember,
                   DropMember, PutEvent, EventDelivered, PutDeadLetter, DropDeadLetters,
                   ReplayDeadLetters> auto&) { return std::optional<ReplacedRow>(); },
};

/// The operation with the highest rank decides the row. Retained messages have stamps, and may be
/// submitted in another order.
std::uint64_t rank_of(const Operation& operation, std::size_t place) {
    if (const auto* put = std::get_if<PutRetained>(&operation)) return put->stamp;
    if (const auto* drop = std::get_if<DropRetained>(&operation)) return drop->stamp;
    return place;
}

/// Which operations are replaced by a later one?
std::vector<bool> which_are_replaced(const std::vector<Operation>& operations) {
    boost::unordered_flat_map<ReplacedRow, std::uint64_t, ReplacedRowHash> last;
    for (std::size_t i = 0; i < operations.size(); ++i) {
        const auto row = std::visit(row_that_is_replaced, operations[i]);
        if (!row) continue;
        std::uint64_t& rank = last[*row];
        rank = std::max(rank, rank_of(operations[i], i));
    }
    std::vector<bool> replaced(operations.size());
    for (std::size_t i = 0; i < operations.size(); ++i) {
        const auto row = std::visit(row_that_is_replaced, operations[i]);
        replaced[i] = row && rank_of(operations[i], i) < last.at(*row);
    }
    return replaced;
}

}  // namespace

void RefusedOperations::insert(std::size_t place, std::vector<Operation>&& operations) {
    for (const Operation& operation : operations) bytes_ += cost_of(operation);
    operations_.insert(operations_.begin() + static_cast<std::ptrdiff_t>(place),
                       std::move_iterator(operations.begin()),
                       std::move_iterator(operations.end()));
}

void RefusedOperations::leave_out_replaced() {
    if (operations_.size() < std::max(2 * left_, few)) return;
    const std::vector<bool> replaced = which_are_replaced(operations_);
    std::vector<Operation> left;
    for (std::size_t i = 0; i < operations_.size(); ++i)
        if (replaced[i])
            bytes_ -= cost_of(operations_[i]);
        else
            left.push_back(std::move(operations_[i]));
    operations_ = std::move(left);
    left_ = operations_.size();
}

std::vector<Operation> RefusedOperations::take() {
    bytes_ = 0;
    return std::exchange(operations_, {});
}

}  // namespace pulsegate
