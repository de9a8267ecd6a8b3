#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "server/cluster/link/link_hello.h"
#include "server/cluster/link/link_settings.h"

namespace pulsegate {

/// The result of a connection to a node's link.
struct LinkReport {
    enum class State : std::uint8_t {
        unreachable,  ///< no answer, no route or no certificate: the cause may be temporary
        refused,      ///< no process listens: the node's process is gone
        answered,
    };
    State state = State::unreachable;
    LinkHello hello{};

    /// Has this incarnation's process ended? A later incarnation may listen there.
    bool is_gone(const std::string& incarnation) const {
        return state == State::refused ||
               (state == State::answered && hello.incarnation != incarnation);
    }
};

/// Asks the node at this address once. Without TLS if `tls` is null.
boost::asio::awaitable<LinkReport> probe_link(std::string address,
                                              std::shared_ptr<boost::asio::ssl::context> tls,
                                              std::chrono::milliseconds patience);

}  // namespace pulsegate
