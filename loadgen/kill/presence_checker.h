#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "loadgen/kill/message_checker.h"

namespace pulsegate::kill {

/// How soon every watcher must know a change, or all states after its login.
constexpr Duration truth_after = std::chrono::seconds(3);

/// A user that is not back may be shown offline so much later than the limit, because the broker
/// counts in seconds.
constexpr Duration grace_rounding = std::chrono::seconds(2);

/// Records which users are really connected, and what each watcher of presence was told, and judges
/// it. A watcher must never be told a version that is lower than an earlier one. When nothing has
/// changed for a while, the last report to each watcher must be true.
///
/// A user that was online when the broker was killed stays online after its start until the
/// client's limit of silence has passed. A user that is back by then must never be shown as
/// offline. A user that is not back must be shown as offline soon.
class PresenceChecker {
public:
    struct State {
        bool online = false;
        std::uint64_t version = 0;

        bool operator==(const State&) const = default;
    };

    /// `slowness`: how many times longer the broker may take to store and report.
    explicit PresenceChecker(int slowness = 1) : slowness_(slowness) {}

    /// Nothing: a login is in progress, so the broker may report either state. `limit` is the
    /// client's limit of silence.
    void change(const std::string& user, std::optional<bool> online, Time now, Duration limit);

    /// Call it before `change` for the users that lose their connections by the kill.
    void broker_killed(Time now);
    /// The broker was stopped in order: it tells everybody that all users are offline.
    void broker_stopped();
    void broker_serves(Time started, Time now);
    /// The edge that these users had last connected to was killed, and the broker serves on.
    void edge_killed(const std::set<std::string>& users, Time now);
    /// When all changes so far must be known, if the broker is not ended meanwhile.
    Time settled() const;

    /// This program stood still until now, so it sees and does things late.
    void stall(Duration length, Time now) { stalls_.add(now, length); }

    /// A watcher is connected from now on. With `anew`, it is told all states again, and forgets
    /// its old states. Versions are never forgotten.
    void begin_watching(const std::string& watcher, bool anew, Time now);
    void end_watching(const std::string& watcher);
    /// `is_duplicate`: it has DUP, so it may repeat an earlier report.
    void tell(const std::string& watcher, const std::string& user, State state, Time now,
              bool is_duplicate = false);

    /// Looks for untrue states. Call it from time to time while the broker serves.
    void compare(Time now);

    std::uint64_t told() const { return told_; }
    /// Versions that fell, or were repeated with another state.
    std::uint64_t fallen() const { return fallen_; }
    /// Wrong beliefs of watchers about users, each user counted once.
    std::uint64_t untrue() const { return untrue_; }

    /// Users that were shown as offline although they were back in time after a kill.
    std::uint64_t offline_in_time() const { return offline_in_time_; }

    /// The first ten of each sort.
    const std::vector<Fault>& faults() const { return faults_; }

private:
    /// Does a user stay online for a while after a kill has cut its connection?
    enum class Grace : std::uint8_t {
        none,
        perhaps,  ///< the broker may not have stored that the user came or left
        sure,
        back,  ///< the user came back in time
    };
    struct User {
        std::optional<bool> online = false;
        Time since{};
        Duration limit{};
        Grace grace = Grace::none;
        Time started{};  ///< when the broker started after the cut of the user's connection
        Time serves{};   ///< when it began to serve after that
        State latest{};  ///< the highest version that any watcher was told
        Time latest_at{};
        std::uint64_t online_at = 0;  ///< the version of `latest` when the broker was killed
    };
    struct Truth {
        bool online;
        Time since;
    };
    struct Watcher {
        std::optional<Time> watching_since{};
        std::map<std::string, bool> online{};                          ///< as it was told
        std::map<std::string, std::map<std::uint64_t, State>> told{};  ///< by version
        std::map<std::string, Time> blamed{};  ///< since when the user's state was not told
    };

    bool is_early_enough(const User& user, Time now) const;
    Time grace_end(const User& user) const {
        return user.serves + user.limit + grace_rounding * slowness_;
    }
    Grace grace_after_kill(const User& user, Time now) const;
    std::optional<Truth> truth(const User& user, Time now) const;
    Duration time_for_truth(Time now) const {
        return truth_after * slowness_ + stalls_.before(now);
    }
    void judge_grace(const std::string& name, const std::string& user, State state, Time now);
    void compare(const std::string& name, Watcher& watcher, Time now);
    void note(std::uint64_t& counter, const std::string& what, Time now);

    int slowness_;
    std::map<std::string, User> users_;
    std::map<std::string, Watcher> watchers_;
    std::uint64_t told_ = 0;
    std::uint64_t fallen_ = 0;
    std::uint64_t untrue_ = 0;
    std::uint64_t offline_in_time_ = 0;
    bool is_down_ = false;
    load::Stalls stalls_;
    std::vector<Fault> faults_;
};

}  // namespace pulsegate::kill
