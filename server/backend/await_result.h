#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <utility>

namespace pulsegate {

/// Calls `ask` with a function that any thread may call with the result, once, and waits for it as
/// long as it takes, or until the deadline: then it returns `Result()`.
template <class Result, class Ask>
boost::asio::awaitable<Result> await_result(
    boost::asio::io_context& io, Ask& ask,
    boost::asio::steady_timer::time_point deadline = boost::asio::steady_timer::time_point::max()) {
    struct Waiting {
        Waiting(boost::asio::io_context& context, boost::asio::steady_timer::time_point until)
            : timer(context, until) {}
        boost::asio::steady_timer timer;
        Result result{};
    };
    const auto waiting = std::make_shared<Waiting>(io, deadline);
    ask([&io, waiting](Result result) {
        boost::asio::post(io, [waiting, result = std::move(result)]() mutable {
            waiting->result = std::move(result);
            waiting->timer.cancel();
        });
    });
    boost::system::error_code cancelled;
    co_await waiting->timer.async_wait(
        boost::asio::redirect_error(boost::asio::use_awaitable, cancelled));
    co_return std::exchange(waiting->result, {});
}

}  // namespace pulsegate
