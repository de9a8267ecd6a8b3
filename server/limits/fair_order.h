#pragma once

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>

namespace pulsegate {

/// An order of service in which flows (addresses, users) take turns, so a thousand entries of one
/// flow don't delay a single one of another. Start-time fair queueing: an entry's round is the one
/// in which it would be served if each flow had one entry a round (Goyal, Vin, Cheng, 1996). Within
/// a flow, the lower ticket comes first.
template <class Flow>
class FairOrder {
public:
    using Ticket = std::uint64_t;  ///< later entries have greater tickets

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

    /// Takes out the next entry; there must be one.
    Entry take_first() {
        const auto [round, ticket, flow] = *order_.begin();
        round_ = round;
        remove(flow, ticket);
        return {flow, ticket};
    }

    /// Takes out the last entry, from the flow with the most. There must be one.
    Entry take_last() {
        const auto [round, ticket, flow] = *order_.rbegin();
        remove(flow, ticket);
        return {flow, ticket};
    }

    /// Takes out the last entry of this flow, which must have one.
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
    /// Compares round and ticket only, because tickets differ.
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
