#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <vector>

#include "server/http/questions/api_context.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

/// Submits operations to the store; `done` may wait for them later.
class Commit {
public:
    Commit(const ApiContext& api, std::vector<Operation> operations);

    /// False if the store is in trouble or needs more than 10 s. Call it once.
    boost::asio::awaitable<bool> done() const;

private:
    struct Waiting;
    std::shared_ptr<Waiting> waiting_;
};

}  // namespace pulsegate
