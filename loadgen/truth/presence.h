#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "loadgen/time.h"
#include "protocol/bytes.h"

namespace pulsegate::load {

/// The true event of a client that others watch.
struct Liveness {
    enum class Kind : std::uint8_t {
        online,  ///< it has begun a login that succeeded
        gone,    ///< its connection ended, and the server could know at once
        silent,  ///< it sent its last packet
        tried,   ///< it began a login that did not succeed, but the server may not know that
    };
    std::uint32_t client = 0;
    Kind kind = Kind::online;
    Time at{};  ///< of the run's common clock
    /// The time after `at` by which the server must have noticed the event: a login has succeeded
    /// by then. Silence with a limit of zero need not be noticed.
    Duration limit{};

    bool operator==(const Liveness&) const = default;
};

void put(const Liveness& fact, Buffer& out);
[[nodiscard]] std::optional<Liveness> take_liveness(Bytes& in);

/// Compares the server's reports of users' presence with the true events of their clients: a user
/// is online while any client is online.
///
/// A presence server may skip changes of a client that comes and goes quickly, and may be a little
/// late. So only lasting errors are faults: an offline that no end of the user explains, an online
/// that no login explains or that stays beyond the limits of all clients, a login that is shown
/// late or never, a change that one observer is told long after another.
class Presence {
public:
    /// A watcher may be told of an offline this late after the client is back, because a server
    /// under load sends the offline and the online one after the other.
    static constexpr Duration settling = std::chrono::seconds(10);

    struct Observation {
        std::uint32_t observer = 0;  ///< the watching client, or another number for each observer
        std::uint32_t user = 0;
        bool online = false;
        std::uint64_t version = 0;
        Time at{};  ///< of the run's common clock
        /// The state is the answer to a question, not the report of a change. An observer asks
        /// once, when it begins to watch. Later it is told changes, however they are marked.
        bool snapshot = false;
        /// The observer must be told each change after this time; `max()`: it need not be told all.
        Time since = Time::max();
        bool is_again = false;  ///< marked as a repetition of what it may not have acknowledged
        Duration delay{};       ///< it may have arrived this long before `at`
        /// The report may have waited in a kept session since the observer was told something else.
        bool may_have_waited = false;
        bool is_by_topic = false;  ///< a message to a subscriber, and not another kind of report
    };

    /// `contradiction`: a different state than this or another observer was told for the same
    /// version.
    enum class Order : std::uint8_t { news, repeated, out_of_order, contradiction };
    Order observed(const Observation& told);

    /// Was a subscriber told this version before that time? Other reports may come earlier, because
    /// a server may store new users before it publishes their presence.
    bool was_told(std::uint32_t user, std::uint64_t version, Time before) const;

    /// A subscriber that came, and should have been told the present states meanwhile.
    struct Newcomer {
        std::uint32_t observer = 0;
        Time connected{};  ///< what it was told before that was told on an earlier connection
        bool is_resumed = false;  ///< the server need not repeat what it was told there
    };
    enum class FirstAnswer : std::uint8_t { right, old, missing };
    /// Compares its knowledge with the newest state that any subscriber was told between `from` and
    /// `to`. A server may have forgotten a user who is offline.
    FirstAnswer first_answer(const Newcomer& newcomer, std::uint32_t user, Time from,
                             Time to) const;

    void happened(std::uint32_t user, const Liveness& fact);
    bool nothing_observed() const { return changes_.empty(); }

    struct Verdict {
        struct Fault {
            enum class Kind : std::uint8_t {
                false_offline,
                false_online,
                ghost,
                missing,
                shown_late,  ///< its login, to all observers
                unseen,
                hidden,
                late,
            };
            Kind kind;
            std::uint32_t user;
            /// False offline or online: when it was shown. Hidden or late: when others were told.
            /// Otherwise: the time of the state that was not shown.
            Time at;
            std::uint32_t observer = 0;  ///< hidden or late: the observer that was not told
        };
        std::vector<Fault> faults;
        std::vector<Duration> detections;   ///< from a client's last packet to its offline
        std::vector<Duration> appearances;  ///< from a client's login to its online
    };

    /// The limits for a user.
    struct Bounds {
        Duration slack{};  ///< allowed delay of an offline after the limit
        /// Allowed delay of a shown login. A user who is new to the observers may be shown later,
        /// within `settling`, because the server may store new users first.
        Duration login_slack = settling;
        /// Logins before that may be shown within `settling`, too.
        Time settled_since = Time::min();
        /// The time since which an observer has watched without a break. A state that was never
        /// shown is only a fault if somebody watched.
        Time watched_since = Time::min();
    };

    /// Judges the users that had events. `until` is the end of the observation.
    template <class BoundsOf>
    Verdict judge(Time until, BoundsOf bounds_of) const {
        Verdict verdict;
        for (const auto& [user, facts] : facts_)
            judge(user, facts, until, bounds_of(user), verdict);
        for (const Skip& skip : skips_)
            if (skip.lasted > bounds_of(skip.fault.user).slack)
                verdict.faults.push_back(skip.fault);
        return verdict;
    }

    /// Adds a fault if an observer that must be told each change since `since` was not told the
    /// last change, although others were told more than `slack` ago.
    void judge_last(std::uint32_t observer, std::uint32_t user, Time since, Time until,
                    Duration slack, Verdict& verdict) const;

private:
    /// A change for all observers together: the first report counts.
    struct Change {
        std::uint64_t version;
        Time first;
        Time earliest;  ///< when the first report may have come
        bool online;
        bool snapshot;  ///< every report of it may be old
        bool waited;    ///< every report of it may have waited
        Time first_by_topic = Time::max();
    };
    using Changes = std::vector<Change>;  ///< by version

    /// A change that an observer was told late, or was not told because it was told a later change
    /// next.
    struct Skip {
        Verdict::Fault fault;
        Duration lasted;  ///< until the next change, or until it was told
    };

    /// The time from a login to the end of the last client of that time.
    struct Life {
        Time from;
        Time logged_in;  ///< when the server must have noticed the beginning
        Time to = Time::max();
        Time limit = Time::max();  ///< when the server must have noticed the end; never: `max()`
        bool silent_end = false;
        bool shown_offline = false;
    };
    using Lives = std::vector<Life>;

    struct Pair {
        std::uint32_t observer;
        std::uint32_t user;
        bool operator==(const Pair&) const = default;
    };
    struct PairHash {
        std::size_t operator()(const Pair& pair) const;
    };

    void note_delay(const Observation& seen, Time earliest, const Change& change);
    /// `change` is the change that was told, `last` the version that was told before it.
    void note_skips(const Observation& seen, std::uint64_t last, const Changes& changes,
                    Changes::const_iterator change);
    static Lives lives_of(std::vector<Liveness> facts);
    static void add_lives_of_client(std::span<const Liveness> facts, Lives& lives);
    static Lives united(Lives lives);
    void judge(std::uint32_t user, const std::vector<Liveness>& facts, Time until,
               const Bounds& bounds, Verdict& verdict) const;
    static void judge_unseen(std::uint32_t user, const Lives& lives, Time until,
                             const Bounds& bounds, Verdict& verdict);
    static void judge_offline(std::uint32_t user, const Change& change, Lives& lives,
                              Verdict& verdict);
    static void judge_onlines(std::uint32_t user, const std::vector<Liveness>& facts,
                              const Changes& changes, const Lives& lives, const Bounds& bounds,
                              Verdict& verdict);
    static void judge_life(std::uint32_t user, const Life& life, Time until, const Changes& changes,
                           const Bounds& bounds, Verdict& verdict);
    /// Was it late, although the user was still online and observed?
    static bool shown_late(const Change& news, bool is_new, const Life& life, Time to,
                           const Bounds& bounds);
    /// Was the user online for long enough to be shown, and was there an observer?
    static bool due(Time from, Time to, const Bounds& bounds);
    /// Was the user shown as online at that time?
    static bool shown(const Changes& changes, Time at);
    /// The same, even if the generator was late to see an offline.
    static bool surely_shown(const Changes& changes, Time at);
    static bool watched_until_news(const Changes& changes, Time at, Time watched_since);

    /// What an observer was told last of a user.
    struct Told {
        std::uint64_t version = 0;
        Time at = Time::min();
    };

    std::unordered_map<Pair, Told, PairHash> last_told_;
    std::unordered_map<std::uint32_t, Changes> changes_;
    std::unordered_map<std::uint32_t, std::vector<Liveness>> facts_;
    std::vector<Skip> skips_;
};

}  // namespace pulsegate::load
