#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/http/status.hpp>
#include <string>
#include <string_view>

namespace pulsegate {

class DataStore;

struct BackupReply {
    boost::beast::http::status status;
    std::string body;  ///< JSON
};

/// `POST /api/v1/backup` with `{"file":…,"overwrite":false}`: has the store backed up, and waits
/// for the end, for minutes if need be.
boost::asio::awaitable<BackupReply> back_up(boost::asio::io_context& io, DataStore& store,
                                            std::string_view body);

}  // namespace pulsegate
