#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/packet.h"
#include "server/auth/access.h"
#include "server/message.h"
#include "server/routing/router.h"
#include "server/session/catch_up.h"
#include "server/session/flow.h"
#include "server/session/link.h"
#include "server/session/presence.h"
#include "server/store/store.h"
#include "wheel/stacked_wheel.h"

namespace pulsegate {

/// What is to be published when a client has gone without a word (MQTT 5.0, 3.1.2.5).
struct Testament {
    Message message;                          ///< its time to live begins when it is published
    std::optional<std::uint32_t> lives = {};  ///< that time in seconds, if it is limited
    std::uint32_t delay = 0;                  ///< seconds after the end of the connection
};

/// The topic aliases of one connection (MQTT 5.0, 3.3.2.3.4).
struct Aliases {
    std::vector<std::string> incoming;  ///< alias - 1 is the place; empty: not set
    boost::unordered_flat_map<std::string, std::uint16_t> outgoing;
    std::uint16_t outgoing_maximum = 0;
};

class Session;

/// What a client was let in with, when that is more than a name.
struct Pass : StackedWheel::Node {
    explicit Pass(Session& session) : session(session) {}

    Session& session;
    std::shared_ptr<const AccessRules> rules{};  ///< null: the gateway's
};

/// A session whose client is away: when its will is due, and when it ends.
struct Absence
    : StackedWheel::Node,
      boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    Absence(Session& session, Tick ends) : session(session), ends(ends) {}

    Session& session;
    const Tick ends;
    std::size_t bytes = 0;  ///< what the session takes in the meantime, but for its queue
};

/// A client's state on its home shard (MQTT 5.0, section 4.1), which may outlive its connection. It
/// is a device of its user: presence counts it while it is connected, and messages to the inbox are
/// for it as long as it lives. What happens to it is the Broker's business.
class Session final : public Device, public Subscriber {
public:
    Session(SessionId id, User& user, std::string client, WallMillis now)
        : Device(std::move(client), now), id(id), user(user) {
        ++user.sessions;
    }
    ~Session() { --user.sessions; }

    Millis last_packet() const override { return link->last_packet(); }

    /// Its flow, which begins if there was none.
    Flow& flowing() {
        if (!flow) flow = std::make_unique<Flow>();
        return *flow;
    }

    /// The same for every session of a client: no-local goes by client (MQTT 5.0, 3.8.3.1).
    std::uint64_t fingerprint() const;

    const SessionId id;
    User& user;
    Link* link = nullptr;  ///< null while the client is away
    SubscriptionList subscriptions;
    std::unique_ptr<Flow> flow;
    std::unique_ptr<Testament> testament;
    std::unique_ptr<CatchUp> catch_up;
    std::unique_ptr<Aliases> aliases;
    std::unique_ptr<Absence> absence;
    std::unique_ptr<Pass> pass;

    std::uint32_t expiry = 0;  ///< seconds that it outlives a connection
    std::uint32_t subscription_count = 0;
    std::uint32_t shares = 0;           ///< how many of them are shared
    std::uint32_t max_packet_size = 0;  ///< the client's; 0: no limit
    std::uint16_t receive_maximum = 0;  ///< QoS 1 and 2 messages in flight to it at once
    std::uint16_t last_packet_id = 0;
    Version version = Version::v3_1_1;
    bool wants_reasons = false;  ///< asked for by Request Problem Information (5.0, 3.1.2.11.7)
    bool served = false;  ///< has its copy of the message to its inbox that is being delivered
};

static_assert(sizeof(Session) <= 192);

}  // namespace pulsegate
