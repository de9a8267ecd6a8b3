#include "server/http/questions/shard_questions.h"

#include "server/session/terms/homes.h"

namespace pulsegate {

boost::asio::awaitable<std::optional<std::vector<ShardStatus>>> ShardQuestions::status() const {
    auto answers = co_await ask_all([](ShardAdmin& shard) { return shard.status(); });
    std::vector<ShardStatus> all;
    for (auto& answer : answers) {
        if (!answer) co_return std::nullopt;
        all.push_back(std::move(*answer));
    }
    co_return all;
}

std::size_t ShardQuestions::home_of(std::string_view user) const {
    return Homes(shards_.size()).shard_of(user);
}

ApiReply shard_unavailable() {
    return api_refusal(ApiError::shard_stalled,
                       "a shard does not answer: its event loop is stalled");
}

}  // namespace pulsegate
