#include "server/http/questions/commit.h"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <utility>

#include "server/http/questions/stored.h"
#include "server/shard/data_store.h"

namespace pulsegate {

struct Commit::Waiting {
    explicit Waiting(boost::asio::io_context& io) : timer(io, store_deadline()) {}
    boost::asio::steady_timer timer;
    std::optional<Outcome> outcome{};
};

Commit::Commit(const ApiContext& api) : api_(api), waiting_(std::make_shared<Waiting>(api.io)) {}

Commit::Commit(const ApiContext& api, std::vector<Operation> operations) : Commit(api) {
    submit()(std::move(operations));
}

Commit::Submit Commit::submit() const {
    return [&api = api_, waiting = waiting_](std::vector<Operation> operations) {
        auto done = [&io = api.io, waiting](Outcome outcome, const std::vector<Operation>&) {
            boost::asio::post(io, [waiting, outcome] {
                waiting->outcome = outcome;
                waiting->timer.cancel();
            });
        };
        api.store.ledger().submit({std::move(operations), std::move(done)});
    };
}

boost::asio::awaitable<bool> Commit::done() const {
    const auto waiting = waiting_;
    boost::system::error_code cancelled;
    if (!waiting->outcome)
        co_await waiting->timer.async_wait(
            boost::asio::redirect_error(boost::asio::use_awaitable, cancelled));
    co_return waiting->outcome == Outcome::committed;
}

}  // namespace pulsegate
