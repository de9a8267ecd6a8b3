#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "loadgen/kill/message.h"

namespace pulsegate::kill {

struct Options {
    std::uint32_t kills = 20;
    std::uint32_t stops = 0;
    std::uint32_t seconds = 60;
    boost::asio::ip::tcp::endpoint broker;
    boost::asio::ip::tcp::endpoint http;  ///< port 0: it has no HTTP API
    std::string clock;                    ///< file that sets the broker's clock; empty: none
    bool v3_1_1 = true;                   ///< all clients speak it, or every other one
    bool v5_0 = true;
    std::uint16_t publishers = 6;
    std::uint16_t receivers = 12;
    double rate = 1500;  ///< messages a second, of all publishers
    int slowness = 1;    ///< how many times longer the broker may take to store and report
    std::set<Kind> kinds{all_kinds.begin(), all_kinds.end()};
    bool presence = true;
    std::uint64_t seed = 0;
    std::string json;
    std::string log = "/dev/null";
    std::string gateway;  ///< program to start if there is no command
    std::string data;     ///< its data folder; empty: a temporary one
    std::string cluster;  ///< the Redis of two gateways, one of which stands by; empty: one alone
    bool edges = false;   ///< the gateway that stands by serves clients as well, as an edge
    std::vector<std::string> command;  ///< starts another broker

    /// Nodes with ports of their own, at which clients connect.
    std::uint16_t places() const { return edges ? 2 : 1; }
    boost::asio::ip::tcp::endpoint broker_at(std::uint16_t place) const {
        return at(broker, place);
    }
    boost::asio::ip::tcp::endpoint http_at(std::uint16_t place) const { return at(http, place); }

private:
    static boost::asio::ip::tcp::endpoint at(boost::asio::ip::tcp::endpoint first,
                                             std::uint16_t place) {
        if (first.port() != 0) first.port(static_cast<std::uint16_t>(first.port() + place));
        return first;
    }
};

}  // namespace pulsegate::kill
