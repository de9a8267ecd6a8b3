#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/hash.h"

namespace pulsegate {

/// The topic aliases of one connection, in both directions (MQTT 5.0, 3.3.2.3.4).
class TopicAliases {
public:
    /// `outgoing_maximum`: the used part of the client's Topic Alias Maximum; 0: none.
    explicit TopicAliases(std::uint16_t outgoing_maximum = 0)
        : outgoing_maximum_(outgoing_maximum) {}

    /// The client has sent a topic with an alias, 1 or more: from now on the alias stands for it.
    void set(std::uint16_t alias, std::string_view topic);

    /// Approximate bytes in memory.
    std::size_t bytes() const { return bytes_; }
    /// The same after `set`.
    std::size_t bytes_after(std::uint16_t alias, std::string_view topic) const;
    /// The bytes of an alias that the gateway gives to a topic.
    static std::size_t bytes_of_outgoing(std::string_view topic);

    /// Calls `visit(topic)` for each alias of the client, "" for one that is not set.
    template <class Visit>
    void for_each(Visit visit) const {
        for (const auto& topic : incoming_) visit(std::string_view(topic));
    }

    /// Calls `visit(topic, alias)` for each alias that the client knows.
    template <class Visit>
    void for_each_outgoing(Visit visit) const {
        for (const auto& [topic, alias] : outgoing_) visit(topic, alias);
    }
    std::uint16_t outgoing_maximum() const { return outgoing_maximum_; }

    /// The topic of the client's alias; "" if the alias was never set.
    std::string_view topic_of(std::uint16_t alias) const;

    struct Outgoing {
        std::uint16_t alias = 0;  ///< 0: the topic has none
        bool known = false;       ///< the client knows the alias, and the topic is left out
    };

    /// The alias to send a topic with. Call `introduced` once a new alias was sent; it is known
    /// then.
    Outgoing outgoing(const std::string& topic) const;
    void introduced(const std::string& topic, std::uint16_t alias);

private:
    std::vector<std::string> incoming_;  ///< by alias - 1; empty: not set
    boost::unordered_flat_map<std::string, std::uint16_t, TextHash, std::equal_to<>> outgoing_;
    std::uint16_t outgoing_maximum_;
    std::size_t bytes_ = 0;
};

}  // namespace pulsegate
