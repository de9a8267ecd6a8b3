#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/hash.h"

namespace pulsegate {

/// Decides which user's delayed messages are published next. Users with due messages take turns, so
/// that no user's messages are late because others have filled the same second. For each user, it
/// knows the number of the first message that was not taken. It has no clock and no database.
class DelayedTurns {
public:
    DelayedTurns() = default;
    ~DelayedTurns();
    DelayedTurns(const DelayedTurns&) = delete;
    DelayedTurns& operator=(const DelayedTurns&) = delete;

    /// The user's first message that was not taken; nothing: there is none.
    void set(std::string_view user, std::optional<std::uint64_t> first);
    /// The user has another message.
    void add(std::string_view user, std::uint64_t id);

    /// Users with a first message below `before` take turns from now on, after the users who
    /// already do so.
    void advance(std::uint64_t before);
    /// The next users, in order.
    std::vector<std::string> next(std::size_t most) const;
    /// The user had a turn, and is now the last one.
    void served(std::string_view user);

    std::size_t due() const { return due_count_; }

private:
    struct UserTurn : boost::intrusive::set_base_hook<>, boost::intrusive::list_base_hook<> {
        explicit UserTurn(std::string_view user) : user(user) {}
        bool operator<(const UserTurn& other) const {
            return first < other.first || (first == other.first && user < other.user);
        }

        const std::string user;
        std::uint64_t first = 0;
        bool is_due = false;
    };

    void leave(UserTurn& turn);
    void enter(UserTurn& turn);

    boost::unordered_flat_map<std::string_view, std::unique_ptr<UserTurn>, TextHash,
                              std::equal_to<>>
        users_;
    boost::intrusive::set<UserTurn> waiting_;  ///< in the order of their first messages
    boost::intrusive::list<UserTurn, boost::intrusive::constant_time_size<false>> due_;
    std::size_t due_count_ = 0;
    std::uint64_t before_ = 0;  ///< messages with smaller numbers are due
};

}  // namespace pulsegate
