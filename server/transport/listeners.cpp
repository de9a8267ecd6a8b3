#include "server/transport/listeners.h"

namespace pulsegate {

Listeners::Listeners(Rounds& rounds, Admission& admission, Counters& counters, Transport& transport)
    : rounds_(rounds), admission_(admission), counters_(counters), transport_(transport) {}

Listener::Endpoint Listeners::listen(const Listener::Endpoint& endpoint, Listener::Ipv4 ipv4,
                                     const ListenerOptions& options) {
    const auto accepted = [this, options](UniqueFd socket, const Listener::Endpoint& peer) {
        accept(std::move(socket), peer, options);
    };
    listeners_.push_back(std::make_unique<Listener>(rounds_, endpoint, ipv4, admission_, accepted));
    return listeners_.back()->endpoint();
}

void Listeners::accept(UniqueFd socket, const Listener::Endpoint& peer,
                       const ListenerOptions& options) {
    ++counters_.accepted;
    std::unique_ptr<ConnectionExtras> extras;
    if (!options.plain()) {
        extras = std::make_unique<ConnectionExtras>();
        extras->handshake = std::make_unique<Handshake>(options, tls_);
    }
    const Address address = options.proxy_protocol ? Address() : Address(peer.address());
    transport_.accept(std::move(socket), std::move(extras), address);
}

void Listeners::tick() {
    for (auto& listener : listeners_) listener->tick();
}

void Listeners::stop() {
    for (auto& listener : listeners_) listener->stop();
}

}  // namespace pulsegate
