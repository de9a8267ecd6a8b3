#include "server/http/retained.h"

#include <algorithm>

#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/http/shard_questions.h"
#include "server/topics.h"

namespace pulsegate {

using boost::asio::awaitable;
using boost::beast::http::status;

awaitable<ApiReply> erase_retained(const ApiContext& api, const ApiRequest& request) {
    const auto filter = request.parameter("filter");
    const auto user = request.parameter("user");
    if (!filter && !user)
        co_return api_refusal(status::bad_request,
                              "nothing named: add ?filter=room/%23, or ?user=alice, or both");
    if (filter && !is_plain_filter(*filter))
        co_return api_refusal(status::bad_request,
                              "filter is no topic filter; percent-encode '#' as %23, '+' as %2B");
    Retained::Erasure erasure{.filter = filter.value_or("#"), .sender = {}, .stamp = next_stamp()};
    if (user) erasure.sender = fingerprint(*user);
    std::size_t erased = 0;
    for (std::size_t shard = 0; shard < api.shards.shards(); ++shard) {
        Retained::Erasure here = erasure;
        while (!here.done) {
            const auto step = [here](Shard& each) {
                auto next = here;
                each.broker().erase(next, monotonic_now());
                return next;
            };
            const auto answer = co_await api.shards.ask_one(shard, step);
            if (!answer) co_return shard_unavailable();
            here = *answer;
        }
        erased = std::max(erased, here.erased);
    }
    spdlog::info("{} retained messages deleted by the admin API", erased);
    co_return api_reply({{"deleted", erased}});
}

}  // namespace pulsegate
