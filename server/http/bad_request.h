#pragma once

#include <boost/asio/awaitable.hpp>
#include <stdexcept>

#include "server/http/api_message.h"

namespace pulsegate {

/// What is wrong with a request; the reply is 400.
class BadRequest : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// What `work` replies, or what is wrong with the request.
boost::asio::awaitable<ApiReply> or_bad_request(boost::asio::awaitable<ApiReply> work);

}  // namespace pulsegate
