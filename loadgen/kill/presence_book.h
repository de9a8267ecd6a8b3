#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "loadgen/kill/book.h"

namespace pulsegate::kill {

/// Who is really connected, what each watcher of presence was told of it, and the judgement. A
/// watcher must never be told a version that is lower than one before; and when nothing has changed
/// for a while, what it was told last must be true.
class PresenceBook {
public:
    struct State {
        bool online = false;
        std::uint64_t version = 0;

        bool operator==(const State&) const = default;
    };

    /// Nothing: a login is under way, so the broker may say either.
    void change(const std::string& user, std::optional<bool> online, Time now);

    /// A watcher is connected from now on. One that begins anew is told all states again, and
    /// forgets those that it has; versions are never forgotten.
    void begin_watching(const std::string& watcher, bool anew, Time now);
    void end_watching(const std::string& watcher);
    void tell(const std::string& watcher, const std::string& user, State state, Time now);

    /// Looks for states that are untrue, from time to time while the broker serves.
    void compare(Time now);

    std::uint64_t told() const { return told_; }
    /// Versions that fell, or were repeated with another state.
    std::uint64_t fallen() const { return fallen_; }
    /// Wrong beliefs of watchers about users, each user counted once.
    std::uint64_t untrue() const { return untrue_; }

    bool kept() const { return fallen_ == 0 && untrue_ == 0; }
    /// The first ten of each sort.
    const std::vector<Fault>& faults() const { return faults_; }

private:
    struct User {
        std::optional<bool> online = false;
        Time since{};
    };
    struct Watcher {
        std::optional<Time> watching_since{};
        std::map<std::string, bool> online{};  ///< as it was told
        std::map<std::string, State> highest{};
        std::map<std::string, Time> blamed{};  ///< since when the user was what it was not told
    };

    void compare(const std::string& name, Watcher& watcher, Time now);
    void note(std::uint64_t& counter, const std::string& what, Time now);

    std::map<std::string, User> users_;
    std::map<std::string, Watcher> watchers_;
    std::uint64_t told_ = 0;
    std::uint64_t fallen_ = 0;
    std::uint64_t untrue_ = 0;
    std::vector<Fault> faults_;
};

/// How soon every watcher must know of a change, or all after its login.
constexpr Duration truth_after = std::chrono::seconds(3);

}  // namespace pulsegate::kill
