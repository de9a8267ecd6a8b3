#include "server/http/bad_request.h"

#include <string>
#include <utility>

namespace pulsegate {

using boost::asio::awaitable;

awaitable<ApiReply> or_bad_request(awaitable<ApiReply> work) {
    std::string mistake;
    try {
        co_return co_await std::move(work);
    } catch (const BadRequest& wrong) {
        mistake = wrong.what();
    }
    co_return api_refusal(boost::beast::http::status::bad_request, mistake);
}

}  // namespace pulsegate
