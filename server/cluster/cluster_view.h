#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace pulsegate {

/// What a node knows of its cluster, for people: the HTTP API and metrics. A copy.
struct ClusterView {
    struct Node {
        std::string name{};
        std::string incarnation{};
        std::string link_address{};
        std::string version{};
        /// Since its counter has last been seen to rise, as far as Redis has answered meanwhile.
        std::chrono::milliseconds beat_age{0};
        bool is_owner = false;  ///< of a partition; else it stands by
        bool is_condemned = false;
    };

    struct Owned {
        std::string owner{};  ///< an incarnation; "": nobody
        std::uint64_t epoch = 0;
    };

    struct Redis {
        std::string address{};
        std::string run_id{};
        std::string away{};  ///< why it does not answer; "": it does
        std::chrono::milliseconds last_answer_age{0};
        std::uint64_t used_memory = 0;
        std::uint64_t max_memory = 0;  ///< 0: no limit
        std::uint64_t replicas = 0;    ///< connected to it
    };

    struct Counters {
        std::uint64_t units = 0;  ///< that Redis has taken
        std::uint64_t bytes = 0;  ///< of these
        std::uint64_t reconnects = 0;
        std::uint64_t fenced = 0;      ///< how often this node was found condemned
        std::uint64_t confirms = 0;    ///< how often it has shown a new run of Redis its tokens
        std::uint64_t rewrites = 0;    ///< how often it has written an emptied Redis anew
        std::uint64_t tail_bytes = 0;  ///< kept now, to be written again after a failover
        std::uint64_t tail_bytes_dropped = 0;  ///< for which there was no room
    };

    std::string self{};   ///< this node's incarnation
    std::string birth{};  ///< of the data set
    bool may_serve = false;
    std::vector<Node> nodes{};
    std::vector<Owned> partitions{};  ///< by number
    Redis redis{};
    Counters counters{};
};

}  // namespace pulsegate
