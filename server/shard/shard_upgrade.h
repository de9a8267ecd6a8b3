#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "server/base/clock.h"
#include "server/base/files/unique_fd.h"
#include "server/login/login_flow.h"
#include "server/loop/rounds.h"
#include "server/session/broker.h"
#include "server/session/durable/own_messages.h"
#include "server/session/terms/homes.h"
#include "server/transport/listeners.h"
#include "server/transport/transport.h"
#include "server/upgrade/export_counts.h"

namespace pulsegate {

/// A shard's part in an upgrade, in which another process replaces this one; see GatewayFreeze. In
/// the old process it brings the shard to rest, describes its clients, and goes on if the new
/// process fails. In the new process it begins with the clients of the old one. It owns nothing but
/// the state of the rest. It belongs to the shard's thread.
class ShardUpgrade {
public:
    /// `turns`: the turns that the broker has left.
    ShardUpgrade(unsigned index, Rounds& rounds, const std::deque<OwnTurn>& turns, Broker& broker,
                 Transport& transport, LoginFlow& logins, Listeners& listeners);

    // For the shard:

    bool is_at_rest() const { return rest_ != Rest::none; }
    /// Must nothing be written or changed, because another process may have the clients?
    bool is_still() const { return rest_ == Rest::all; }
    /// Does it handle some packets although it rests?
    bool finishes_ended() const { return finishes_ended_; }
    bool holds_logins() const { return is_at_rest() && holds_logins_; }
    /// The shard has handled an item that is not a task, or a turn.
    void count_handled() { ++handled_; }

    // In a task, in the old process:

    /// From now on accepts no connections and reads no client, so that all work under way ends.
    void begin_freeze();
    struct Settled {
        bool is_quiet;          ///< no work is under way except logins
        std::size_t logins;     ///< logins under way
        std::uint64_t handled;  ///< items from other threads and turns so far
    };
    /// Makes that work end sooner. Call it repeatedly. `holds_logins`: logins wait as well.
    Settled settle(bool holds_logins);
    /// From now on writes nothing and changes nothing, because another process may have its
    /// clients.
    void complete_freeze() { rest(Rest::all); }
    /// At rest: the store was closed and opened again.
    void store_reopened() { broker_.passage().store_reopened(); }
    /// Call Shard::thaw instead. Goes on as before the freeze, or begins with the clients that it
    /// has adopted. Returns how long nothing could be handled; nothing if it was not at rest.
    std::optional<Millis> thaw();
    /// Calls `visit(socket, state)` for each client that another process can take, and changes
    /// nothing. The state contains secrets, and is wiped when `visit` returns.
    ExportCounts export_clients(const std::function<void(int, std::string_view)>& visit);
    /// The same for its history, in parts. The history does not grow once the freeze is complete.
    void export_history(const std::function<void(std::string_view)>& visit);
    /// Another process serves. Tells the clients that were left behind, or that it has refused,
    /// that this one ends. `refused`: their sockets, sorted.
    void end_left_behind(std::span<const int> refused);
    /// Runs `call` after that time, in a round of its own. A later call of `after` replaces it.
    void after(Millis time, std::function<void()> call);

    // In the new process, in a task, or before the shard runs when the store is restored:

    /// Takes over a client that another process had. The other process may continue with it until
    /// `thaw`, which the shard calls when it begins to run. So this shard neither reads nor writes
    /// until then.
    enum class Adoption : std::uint8_t {
        adopted,
        refused,  ///< not possible; the client has to connect again
    };
    [[nodiscard]] Adoption adopt(UniqueFd socket, std::string_view state);
    /// The home shard of such a client.
    static unsigned home_of(std::string_view state, Homes homes);
    /// All clients have been adopted.
    void finish_adoption();
    /// No process has served since then.
    void count_pause_from(Millis since) { paused_ = since; }

private:
    void rest(Rest rest);
    void rest_until_thaw();

    const unsigned index_;
    Rounds& rounds_;
    const std::deque<OwnTurn>& turns_;
    Broker& broker_;
    Transport& transport_;
    LoginFlow& logins_;
    Listeners& listeners_;
    Rest rest_ = Rest::none;
    bool finishes_ended_ = false;
    bool holds_logins_ = false;
    Millis rested_ = 0;               ///< when the rest began
    std::optional<Millis> paused_{};  ///< when the pause of the old process began, before the rest
    std::uint64_t handled_ = 0;
    boost::asio::steady_timer timer_{rounds_.context()};
};

}  // namespace pulsegate
