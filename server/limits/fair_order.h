#pragma once

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>

namespace pulsegate {

/// The order in which those who wait are served if their flows (addresses, users) take turns, so
/// that a thousand of one flow don't hold up the one of another. Start-time fair queueing: everyone
/// is served in the round in which it would be if each flow had one a round (Goyal, Vin, Cheng,
/// 1996). Within a flow, the lower ticket comes first.
template <class Flow>
class FairOrder {
public:
    using Ticket = std::uint64_t;  ///< greater for one that came later

    bool empty() const { return order_.empty(); }
    std::size_t size() const { return order_.size(); }

    void add(const Flow& flow, Ticket ticket) {
        auto& waiting = waiting_[flow];
        const Round last = waiting.empty() ? round_ : waiting.rbegin()->second;
        const Round round = std::max(last, round_) + 1;
        waiting.emplace(ticket, round);
        order_.emplace(round, ticket, flow);
    }

    struct Entry {
        Flow flow;
        Ticket ticket;
    };

    /// Takes out the next one; there must be one.
    Entry take_first() {
        const auto [round, ticket, flow] = *order_.begin();
        round_ = round;
        remove(flow, ticket);
        return {flow, ticket};
    }

    /// Takes out the last one, of the flow that has most. There must be one.
    Entry take_last() {
        const auto [round, ticket, flow] = *order_.rbegin();
        remove(flow, ticket);
        return {flow, ticket};
    }

    /// Takes out the last of this flow, which must have one.
    void take_last_of(const Flow& flow) { remove(flow, waiting_.at(flow).rbegin()->first); }

    void remove(const Flow& flow, Ticket ticket) {
        const auto waiting = waiting_.find(flow);
        const auto entry = waiting->second.find(ticket);
        order_.erase({entry->second, ticket, flow});
        waiting->second.erase(entry);
        if (waiting->second.empty()) waiting_.erase(waiting);
    }

private:
    using Round = std::uint64_t;
    /// By round and ticket alone: tickets differ.
    struct Sooner {
        using Place = std::tuple<Round, Ticket, Flow>;
        bool operator()(const Place& a, const Place& b) const {
            return std::tie(std::get<0>(a), std::get<1>(a)) <
                   std::tie(std::get<0>(b), std::get<1>(b));
        }
    };

    Round round_ = 0;
    boost::unordered_flat_map<Flow, std::map<Ticket, Round>> waiting_;
    std::set<typename Sooner::Place, Sooner> order_;
};

}  // namespace pulsegate
