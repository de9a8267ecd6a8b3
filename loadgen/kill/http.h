#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string>
#include <string_view>

namespace pulsegate::kill {

struct HttpAnswer {
    int status = 0;  ///< 0: there was no answer
    std::string body;
};

/// One request on its own connection. Returns when it is answered, or after some seconds. With a
/// body, it is a POST.
HttpAnswer ask(const boost::asio::ip::tcp::endpoint& server, std::string_view target,
               std::string_view body = {});

}  // namespace pulsegate::kill
