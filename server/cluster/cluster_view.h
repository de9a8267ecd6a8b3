#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "server/base/certificate_end.h"

namespace pulsegate {

/// A node's knowledge about its cluster, as a copy for the HTTP API and metrics.
struct ClusterView {
    struct Node {
        std::string name{};
        std::string incarnation{};
        std::string link_address{};
        std::string version{};
        /// The time since its counter was last seen to rise, as far as Redis has answered
        /// meanwhile.
        std::chrono::milliseconds beat_age{0};
        std::uint64_t beats = 0;  ///< its counter, when Redis was last asked
        bool is_owner = false;    ///< it owns a partition; otherwise it stands by
        bool is_condemned = false;
    };

    struct Owned {
        std::string owner{};  ///< an incarnation; "": no node
        std::uint64_t epoch = 0;
    };

    struct Redis {
        std::string address{};
        std::string run_id{};
        std::string away{};  ///< why Redis does not answer; "": it does
        std::chrono::milliseconds last_answer_age{0};
        std::uint64_t used_memory = 0;
        std::uint64_t max_memory = 0;  ///< 0: no limit
        std::uint64_t replicas = 0;    ///< connected replicas
    };

    struct Counters {
        std::uint64_t units = 0;  ///< changes that Redis has accepted
        std::uint64_t bytes = 0;  ///< bytes of these changes
        std::uint64_t reconnects = 0;
        std::uint64_t fenced = 0;      ///< how often this node was found condemned
        std::uint64_t confirms = 0;    ///< how often it has confirmed its tokens to a new run of
                                       ///< Redis
        std::uint64_t rewrites = 0;    ///< how often it has filled an emptied Redis again
        std::uint64_t tail_bytes = 0;  ///< kept at present, to be written again after a failover
        std::uint64_t tail_bytes_dropped = 0;  ///< that could not be kept, because there was no
                                               ///< room
    };

    std::string self{};   ///< this node's incarnation
    std::string birth{};  ///< birth of the data set
    bool may_serve = false;
    std::vector<Node> nodes{};
    std::vector<Owned> partitions{};  ///< partitions by number
    Redis redis{};
    Counters counters{};
    std::vector<CertificateEnd> certificates{};  ///< empty if the link has no TLS
};

/// Is there another node that takes over when this one stops in order? A node that is silent may
/// be slow. If it is dead, users appear online until a node starts.
inline bool has_successor(const ClusterView& view) {
    return std::ranges::any_of(view.nodes, [&](const ClusterView::Node& node) {
        return node.incarnation != view.self && !node.is_condemned;
    });
}

/// The node that owns the data, unless it is this one or condemned. Null if there is none.
inline const ClusterView::Node* other_owner(const ClusterView& view) {
    const auto owner = std::ranges::find_if(view.nodes, [&](const ClusterView::Node& node) {
        return node.is_owner && !node.is_condemned && node.incarnation != view.self;
    });
    return owner == view.nodes.end() ? nullptr : &*owner;
}

}  // namespace pulsegate
