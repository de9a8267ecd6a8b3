#include "loadgen/kill/http.h"

#include <fmt/format.h>

#include <chrono>
#include <iterator>

namespace pulsegate::kill {

namespace {

constexpr auto answer_patience = std::chrono::seconds(5);

}  // namespace

HttpAnswer ask(const boost::asio::ip::tcp::endpoint& server, std::string_view target,
               std::string_view body) {
    boost::asio::ip::tcp::iostream stream;
    stream.expires_after(answer_patience);
    stream.connect(server);
    // 1.0, so that the answer ends with the connection.
    stream << fmt::format("{} {} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}",
                          body.empty() ? "GET" : "POST", target, body.size(), body)
           << std::flush;
    HttpAnswer answer;
    std::string line;
    stream >> line >> answer.status;
    while (std::getline(stream, line) && line != "\r") {
    }
    answer.body.assign(std::istreambuf_iterator<char>(stream), {});
    return answer;
}

}  // namespace pulsegate::kill
