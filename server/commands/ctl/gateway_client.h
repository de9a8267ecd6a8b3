#pragma once

#include <boost/beast/http/verb.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace pulsegate {

/// The address of a gateway's HTTP API.
struct GatewayPlace {
    std::string socket{};  ///< path of its Unix socket; "": the URL
    std::string url{};     ///< http or https://HOST:PORT
    std::string token{};
    std::string ca_file{};  ///< PEM; "": the system's CAs

    /// Its name in messages.
    std::string text() const { return socket.empty() ? url : socket; }
};

/// There is no gateway, or it does not answer.
class GatewayAway : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// No process listens there.
class NobodyListens : public GatewayAway {
    using GatewayAway::GatewayAway;
};

/// A client of a running gateway's HTTP API, with one connection for each request. It blocks its
/// thread. A gateway counts as away if a connection to it can't be made in 15 s for each address.
class GatewayClient {
public:
    using Verb = boost::beast::http::verb;

    explicit GatewayClient(GatewayPlace place) : place_(std::move(place)) {}

    struct Answer {
        unsigned status = 0;
        std::string text{};

        bool ok() const { return status / 100 == 2; }
        /// Throws GatewayAway if it is not JSON.
        boost::json::value json() const;
        /// The reason of a refusal.
        std::string refusal() const;
    };

    /// Asks for what is answered at once. Throws GatewayAway, or more precisely NobodyListens; also
    /// if nothing comes for `longest_wait`.
    Answer get(std::string_view target,
               std::chrono::seconds longest_wait = std::chrono::seconds(15)) const;

    /// The same for what may take long: a change, whose outcome must be known, or an answer that
    /// waits for one. `body` is JSON, or "".
    Answer ask(Verb verb, std::string_view target, std::string_view body = {}) const;

    /// Calls `line` for each line of an endless answer, until the connection ends or `line` returns
    /// false. Returns the answer if it is an error. Throws GatewayAway.
    Answer follow(std::string_view target, const std::function<bool(std::string_view)>& line) const;

    const GatewayPlace& place() const { return place_; }

private:
    const GatewayPlace place_;
};

}  // namespace pulsegate
