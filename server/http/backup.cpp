#include "server/http/backup.h"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "server/data_store.h"

namespace pulsegate {

namespace {

using boost::asio::steady_timer;
using boost::beast::http::status;

BackupReply refused(status why, std::string_view error) {
    return {why, boost::json::serialize(boost::json::object{{"error", error}})};
}

std::optional<BackupOrder> parse_order(std::string_view body) {
    boost::system::error_code error;
    const auto parsed = boost::json::parse(body, error);
    const auto* const object = error ? nullptr : parsed.if_object();
    const auto* const file = object ? object->if_contains("file") : nullptr;
    if (!file || !file->is_string()) return std::nullopt;
    BackupOrder order{.file = std::string(file->get_string())};
    if (const auto* const overwrite = object->if_contains("overwrite")) {
        if (!overwrite->is_bool()) return std::nullopt;
        order.overwrite = overwrite->get_bool();
    }
    return order;
}

BackupReply reply_to(const BackupOrder& order, const BackupResult& result) {
    using Status = BackupResult::Status;
    switch (result.status) {
        case Status::bad_file: return refused(status::bad_request, result.error);
        case Status::exists:
        case Status::busy: return refused(status::conflict, result.error);
        case Status::failed: return refused(status::internal_server_error, result.error);
        case Status::written: break;
    }
    return {
        status::ok,
        boost::json::serialize(boost::json::object{
            {"file", order.file}, {"bytes", result.bytes}, {"milliseconds", result.took.count()}})};
}

}  // namespace

boost::asio::awaitable<BackupReply> back_up(boost::asio::io_context& io, DataStore& store,
                                            std::string_view body) {
    const auto order = parse_order(body);
    if (!order)
        co_return refused(status::bad_request,
                          "no file named: send {\"file\":\"/absolute/path\"}, and "
                          "\"overwrite\":true if it may be there already");
    if (!store.is_kept())
        co_return refused(status::conflict,
                          "nothing is stored, so there is nothing to back up: see --data");
    struct Waiting {
        explicit Waiting(boost::asio::io_context& context)
            : timer(context, steady_timer::time_point::max()) {}
        steady_timer timer;
        BackupResult result;
    };
    const auto waiting = std::make_shared<Waiting>(io);
    store.back_up(*order, [&io, waiting](const BackupResult& result) {
        boost::asio::post(io, [waiting, result] {
            waiting->result = result;
            waiting->timer.cancel();
        });
    });
    boost::system::error_code cancelled;
    co_await waiting->timer.async_wait(
        boost::asio::redirect_error(boost::asio::use_awaitable, cancelled));
    co_return reply_to(*order, waiting->result);
}

}  // namespace pulsegate
