#pragma once

#include <boost/json/object.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/owner_thread.h"
#include "server/limits/address.h"
#include "server/session/terms/link.h"
#include "server/session/trace/trace.h"

namespace pulsegate {

/// The subject of an event. Unknown members are empty.
struct TraceSubject {
    std::string_view user{};
    std::string_view client{};
    const Link* link = nullptr;   ///< null: the client is away
    Address address{};            ///< address of a peer without a link
    bool may_be_claimed = false;  ///< `Tracer::claim` may name the user later
};

/// The event of a connection that was closed without an answer.
boost::json::object traced_rejection();

/// The traces of one shard. Without a trace, an event only costs a look at `is_on`. With traces,
/// each event of the shard is compared with all of them. It belongs to the shard's thread.
class Tracer {
public:
    bool is_on() const { return is_on_; }

    void begin(std::shared_ptr<Trace> trace);

    /// Puts the event into the traces of its subject. `describe` is called if there are any; time,
    /// user, client and address are added to its result.
    void tell(const TraceSubject& subject, const std::function<boost::json::object()>& describe);

    /// Names the client that the peer of a connection without a session claims to be. From now on,
    /// the connection's events also belong to that client, and so do its earlier events that may be
    /// claimed.
    void claim(const Link& link, std::string_view user, std::string_view client);
    /// The connection is closed.
    void forget(const Link& link);

private:
    struct Claim {
        std::string user;
        std::string client;
    };
    /// An event that may be claimed, and the client that the peer claimed to be at that time.
    struct KeptEvent {
        boost::json::object event;
        Claim by;
    };
    /// The maximum for one shard, while there are traces. Further connections that log in at the
    /// same time are traced from the login on.
    static constexpr std::size_t most_kept = 1000;

    static bool is_followed(const Trace& trace, const TraceSubject& subject);
    TraceSubject with_claim(const TraceSubject& subject) const;
    static std::string text_of(boost::json::object event, const TraceSubject& subject);
    void keep(const TraceSubject& subject, const std::function<boost::json::object()>& describe);
    void tell_kept(const TraceSubject& subject);
    void drop_ended();

    bool is_on_ = false;
    std::vector<std::shared_ptr<Trace>> traces_;
    boost::unordered_flat_map<const Link*, Claim> claims_;
    boost::unordered_flat_map<const Link*, KeptEvent> kept_;  ///< the last event of each connection
    [[no_unique_address]] OwnerThread thread_;
};

}  // namespace pulsegate
