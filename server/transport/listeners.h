#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "server/base/counters.h"
#include "server/limits/admission.h"
#include "server/loop/rounds.h"
#include "server/transport/handshakes/handshake.h"
#include "server/transport/listener.h"
#include "server/transport/tls/tls.h"
#include "server/transport/transport.h"

namespace pulsegate {

/// The listeners of one shard, and the certificates that they show. They pass accepted connections
/// to the shard's transport. They belong to the shard's thread.
class Listeners {
public:
    Listeners(Rounds& rounds, Admission& admission, Counters& counters, Transport& transport);

    /// Returns the actual endpoint, because the port may have been 0. Throws
    /// boost::system::system_error.
    Listener::Endpoint listen(const Listener::Endpoint& endpoint, Listener::Ipv4 ipv4,
                              const ListenerOptions& options);
    /// The same with a socket that already listens.
    Listener::Endpoint listen(const Listener::Endpoint& endpoint, UniqueFd inherited,
                              const ListenerOptions& options);
    std::vector<int> sockets() const;

    /// The certificates for new connections from now on.
    void use(std::shared_ptr<const Tls> tls) { tls_ = std::move(tls); }

    /// Call it once a second.
    void tick();
    /// Accepts no connection until `tick`.
    void rest();
    void stop();

private:
    Listener::Accepted accept_with(const ListenerOptions& options);
    Listener::Endpoint name_last(const ListenerOptions& options);
    void accept(UniqueFd socket, const Listener::Endpoint& peer, const ListenerOptions& options,
                std::uint16_t number);

    Rounds& rounds_;
    Admission& admission_;
    Counters& counters_;
    Transport& transport_;
    std::shared_ptr<const Tls> tls_;
    std::vector<std::unique_ptr<Listener>> listeners_;
};

}  // namespace pulsegate
