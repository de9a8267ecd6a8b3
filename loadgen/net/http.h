#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "loadgen/time.h"

namespace pulsegate::load {

/// The parts of "http://HOST[:PORT][/PATH]".
struct HttpUrl {
    std::string host;
    std::uint16_t port = 80;
    std::string authority;  ///< as in the Host field
    std::string path;       ///< empty: none is named
};

/// Throws `std::invalid_argument` with the remedy.
HttpUrl parse_http_url(std::string_view url);

struct HttpRequest {
    std::string url;
    std::string body{};   ///< empty: it is a GET; otherwise a POST
    std::string token{};  ///< for the Authorization header; empty: none
    Duration within = std::chrono::seconds(5);
};

struct HttpAnswer {
    int status = 0;    ///< 0: there was no answer
    std::string body;  ///< or why there was no answer
};

/// One request on its own connection. Blocks until it is answered, or until the time is over. An
/// answer that is larger than 8 MiB counts as none.
HttpAnswer ask(const HttpRequest& request);

}  // namespace pulsegate::load
