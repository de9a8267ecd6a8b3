#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <vector>

#include "server/http/questions/api_context.h"
#include "server/store/ledger/unit.h"

namespace pulsegate {

/// Operations that are handed in to the store, and may be waited for later.
class Commit {
public:
    Commit(const ApiContext& api, std::vector<Operation> operations);

    /// False if the store is in trouble. Once.
    boost::asio::awaitable<bool> done() const;

private:
    struct Waiting;
    std::shared_ptr<Waiting> waiting_;
};

}  // namespace pulsegate
