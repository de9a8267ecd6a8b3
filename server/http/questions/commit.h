#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "server/http/questions/api_context.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

/// Submits operations to the store; `done` may wait for them later.
class Commit {
public:
    Commit(const ApiContext& api, std::vector<Operation> operations);
    /// Submits nothing by itself.
    explicit Commit(const ApiContext& api);

    using Submit = std::function<void(std::vector<Operation>)>;
    /// Submits the operations of a commit that submits nothing by itself. Call it at most once. A
    /// shard calls it in the round in which it makes the same change in memory. So the store has
    /// the changes in the same order, and has a change also if the shard made it too late for the
    /// answer.
    Submit submit() const;

    /// False if the store is in trouble or needs more than 10 s. Call it once, after the
    /// operations were submitted.
    boost::asio::awaitable<bool> done() const;

private:
    struct Waiting;
    const ApiContext& api_;
    std::shared_ptr<Waiting> waiting_;
};

}  // namespace pulsegate
