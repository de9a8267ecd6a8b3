#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "loadgen/client/profile.h"
#include "loadgen/kill/message.h"

namespace pulsegate::kill {

struct Options {
    std::uint32_t kills = 20;
    std::uint32_t stops = 0;
    std::uint32_t seconds = 60;
    std::vector<load::Endpoint> nodes;  ///< where clients connect: the broker, and an edge
    std::uint16_t http = 0;             ///< the port of the broker's HTTP API; 0: none
    std::string clock;                  ///< file that sets the broker's clock; empty: none
    bool v3_1_1 = true;                 ///< all clients speak it, or every other one
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

    std::string mqtt_url(std::uint16_t place) const;  ///< "mqtt://127.0.0.1:1883"
    std::string http_url(std::uint16_t place) const;  ///< "http://127.0.0.1:8080"
};

}  // namespace pulsegate::kill
