#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "server/cluster/link/link_hello.h"
#include "server/cluster/link/link_settings.h"

namespace pulsegate {

class LinkSocket;

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

/// A connection to a node's link after the node's hello.
struct LinkVisit {
    LinkReport report{};
    boost::system::error_code error{};     ///< why the node has not answered, if it is known
    std::shared_ptr<LinkSocket> socket{};  ///< if the node has answered
};

/// Without TLS if `tls` is null. `patience` is for all steps but the resolution of the address.
boost::asio::awaitable<LinkVisit> visit_link(std::string address,
                                             std::shared_ptr<boost::asio::ssl::context> tls,
                                             std::chrono::milliseconds patience);

/// Asks the node at this address once, and answers with `self`, the hello of this node.
boost::asio::awaitable<LinkReport> probe_link(std::string address,
                                              std::shared_ptr<boost::asio::ssl::context> tls,
                                              LinkHello self, std::chrono::milliseconds patience);

}  // namespace pulsegate
