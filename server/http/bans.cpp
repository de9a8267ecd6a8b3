#include "server/http/bans.h"

#include <boost/asio/ip/address.hpp>
#include <boost/json/array.hpp>
#include <utility>
#include <vector>

#include "server/http/shard_questions.h"
#include "server/limits/address.h"
#include "server/limits/address_limits.h"

namespace pulsegate {

namespace json = boost::json;
using boost::asio::awaitable;
using boost::beast::http::status;

namespace {

json::object bans_json(const std::vector<Ban>& bans) {
    json::array all;
    for (const Ban& ban : bans) {
        json::object one;
        if (ban.address.empty()) {
            one["user"] = ban.user;
            one["client"] = ban.client;
        } else {
            one["address"] = ban.address;
        }
        one["ends_in_ms"] = ban.left;
        all.push_back(std::move(one));
    }
    return {{"bans", std::move(all)}};
}

ApiReply lift_address_ban(AddressLimits& limits, std::string_view text) {
    boost::system::error_code error;
    const auto address = boost::asio::ip::make_address(text.substr(0, text.find('/')), error);
    if (error) return api_refusal(status::bad_request, "address is not an IP address");
    if (!limits.lift_ban(Address(address))) return api_refusal(status::not_found, "no such ban");
    return api_reply(bans_json({}));
}

}  // namespace

awaitable<ApiReply> show_bans(const ApiContext& api, const ApiRequest&) {
    const auto question = [](Shard& shard) { return shard.client_limits().bans(monotonic_now()); };
    const auto answers = co_await api.shards.ask_all(question);
    auto all = api.address_limits.bans(monotonic_now());
    for (const auto& answer : answers) {
        if (!answer) co_return shard_unavailable();
        all.insert(all.end(), answer->begin(), answer->end());
    }
    co_return api_reply(bans_json(all));
}

awaitable<ApiReply> lift_ban(const ApiContext& api, const ApiRequest& request) {
    if (const auto address = request.parameter("address"))
        co_return lift_address_ban(api.address_limits, *address);
    const auto user = request.parameter("user");
    const auto client = request.parameter("client");
    if (!user || !client)
        co_return api_refusal(
            status::bad_request,
            "no ban named: add ?address=10.0.0.7 or ?user=alice&client=alice-phone");
    const auto order = [name = *user, id = *client](Shard& shard) {
        return shard.client_limits().lift_ban(name, id);
    };
    const auto lifted = co_await api.shards.ask_home(*user, order);
    if (!lifted) co_return shard_unavailable();
    if (!*lifted) co_return api_refusal(status::not_found, "no such ban");
    co_return api_reply(bans_json({}));
}

}  // namespace pulsegate
