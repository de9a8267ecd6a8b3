#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "server/http/serving/api_message.h"
#include "server/shard/shard_admin.h"
#include "server/shard/shard_status.h"

namespace pulsegate {

/// Asks shards through their mailboxes, and waits a limited time for the answers. A question is a
/// function that runs on a shard's thread and returns the answer.
///
/// Give a lambda with captures a name before you pass it: g++ 12 destroys a temporary in a co_await
/// expression twice (GCC bug 99576).
class ShardQuestions {
public:
    /// The answers arrive on the thread of `io`, which must outlive the shards.
    ShardQuestions(boost::asio::io_context& io, std::vector<Shard*> shards)
        : io_(io), shards_(std::move(shards)) {}

    std::size_t shards() const { return shards_.size(); }
    /// The shard where the user is at home.
    std::size_t home_of(std::string_view user) const;

    /// The answers of all shards, in their order; empty for a shard that does not answer in time.
    template <class Question, class Answer = std::invoke_result_t<Question, ShardAdmin&>>
    boost::asio::awaitable<std::vector<std::optional<Answer>>> ask_all(Question question) const {
        return ask(shards_, std::move(question));
    }

    /// Nothing if the shard does not answer in time.
    template <class Question, class Answer = std::invoke_result_t<Question, ShardAdmin&>>
    boost::asio::awaitable<std::optional<Answer>> ask_one(std::size_t shard,
                                                          Question question) const {
        const std::vector<Shard*> asked(1, shards_[shard]);
        auto answers = co_await ask(asked, question);
        co_return std::move(answers.front());
    }

    /// The shard where the user is at home.
    template <class Question, class Answer = std::invoke_result_t<Question, ShardAdmin&>>
    boost::asio::awaitable<std::optional<Answer>> ask_home(std::string_view user,
                                                           Question question) const {
        return ask_one(home_of(user), std::move(question));
    }

    /// Runs the task on the shard, in a round of its own.
    void send(std::size_t shard, ShardAdmin::Task task) const {
        ShardAdmin::send(*shards_[shard], std::move(task));
    }

    /// Runs the task on the user's home shard, in a round of its own.
    void send_home(std::string_view user, ShardAdmin::Task task) const {
        send(home_of(user), std::move(task));
    }

    /// The status of all shards; nothing if one of them does not answer in time.
    boost::asio::awaitable<std::optional<std::vector<ShardStatus>>> status() const;

private:
    static constexpr std::chrono::seconds timeout{2};

    template <class Question, class Answer = std::invoke_result_t<Question, ShardAdmin&>>
    boost::asio::awaitable<std::vector<std::optional<Answer>>> ask(std::vector<Shard*> asked,
                                                                   Question question) const {
        struct Gathering {
            Gathering(boost::asio::io_context& context, std::size_t count)
                : timer(context, timeout), answers(count), left(count) {}
            boost::asio::steady_timer timer;
            std::vector<std::optional<Answer>> answers;
            std::size_t left;
        };
        const auto gathering = std::make_shared<Gathering>(io_, asked.size());
        for (std::size_t i = 0; i < asked.size(); ++i)
            ShardAdmin::send(*asked[i], [&io = io_, gathering, question, i](ShardAdmin& shard) {
                boost::asio::post(io, [gathering, i, answer = question(shard)]() mutable {
                    gathering->answers[i] = std::move(answer);
                    if (--gathering->left == 0) gathering->timer.cancel();
                });
            });
        boost::system::error_code cancelled;
        co_await gathering->timer.async_wait(
            boost::asio::redirect_error(boost::asio::use_awaitable, cancelled));
        co_return gathering->answers;  // a copy: late answers are still written to the original
    }

    boost::asio::io_context& io_;
    const std::vector<Shard*> shards_;
};

/// The reply if a shard does not answer in time.
ApiReply shard_unavailable();

}  // namespace pulsegate
