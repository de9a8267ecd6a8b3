#include "server/http/operation/reload.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "server/backend/await_result.h"
#include "server/http/questions/admin_host.h"

namespace pulsegate {

namespace {

boost::json::array to_json(const std::vector<std::string>& texts) {
    boost::json::array all;
    for (const std::string& each : texts) all.emplace_back(each);
    return all;
}

}  // namespace

boost::asio::awaitable<ApiReply> reload(const ApiContext& api, const ApiRequest&) {
    return reload_by(api.io, api.host.reload);
}

boost::asio::awaitable<ApiReply> reload_by(boost::asio::io_context& io, const AskReload& reload) {
    auto ask = [&](auto answer) {
        reload([answer](const ReloadOutcome& outcome) { answer(outcome); });
    };
    const auto outcome = co_await await_result<ReloadOutcome>(io, ask);
    if (!outcome.faults.empty())
        co_return api_refusal(ApiError::bad_settings, outcome.faults.front(),
                              {{"faults", to_json(outcome.faults)}});
    co_return api_reply(
        {{"applied", to_json(outcome.applied)}, {"needs_restart", to_json(outcome.needs_restart)}});
}

}  // namespace pulsegate
