#include "server/http/operation/backup.h"

#include <boost/json/object.hpp>
#include <optional>

#include "server/auth/json_claims.h"
#include "server/backend/await_result.h"
#include "server/shard/data_store.h"

namespace pulsegate {

namespace {

std::optional<BackupOrder> parse_order(std::string_view body) {
    const auto object = read_object(body);
    const auto* const file = object ? object->if_contains("file") : nullptr;
    if (!file || !file->is_string()) return std::nullopt;
    for (const auto& member : *object)
        if (member.key() != "file" && member.key() != "overwrite") return std::nullopt;
    BackupOrder order{.file = std::string(file->get_string())};
    if (const auto* const overwrite = object->if_contains("overwrite")) {
        if (!overwrite->is_bool()) return std::nullopt;
        order.overwrite = overwrite->get_bool();
    }
    return order;
}

ApiReply reply_to(const BackupOrder& order, const BackupResult& result) {
    using Status = BackupResult::Status;
    switch (result.status) {
        case Status::bad_file: return api_refusal(ApiError::bad_file, result.error);
        case Status::exists: return api_refusal(ApiError::file_exists, result.error);
        case Status::busy: return api_refusal(ApiError::backup_under_way, result.error);
        case Status::failed: return api_refusal(ApiError::backup_failed, result.error);
        case Status::written: break;
    }
    return api_reply({{"file", order.file},
                      {"bytes", result.bytes},
                      {"seconds", static_cast<double>(result.took.count()) / 1000}});
}

}  // namespace

boost::asio::awaitable<ApiReply> back_up(const ApiContext& api, const ApiRequest& request) {
    const auto order = parse_order(request.body);
    if (!order)
        co_return api_refusal(ApiError::bad_json,
                              "no file is named: send {\"file\":\"/absolute/path\"}, and "
                              "\"overwrite\":true to overwrite an existing file");
    if (!api.store.is_kept())
        co_return api_refusal(ApiError::nothing_stored,
                              "nothing is stored, so there is nothing to back up: see --data");
    auto ask = [&](auto answer) {
        api.store.back_up(*order, [answer](const BackupResult& result) { answer(result); });
    };
    const auto result = co_await await_result<BackupResult>(api.io, ask);
    co_return reply_to(*order, result);
}

}  // namespace pulsegate
