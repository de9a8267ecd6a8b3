#include "server/transport/listeners.h"

#include <string>

#include "server/limits/address.h"

namespace pulsegate {

namespace {

/// The URL as it was configured, but with the real address and port.
std::string listener_name(const ListenerOptions& options, const Listener::Endpoint& endpoint) {
    std::string name = options.path.empty() ? "mqtt" : "ws";
    if (options.tls) name += 's';
    return name + "://" + address_text(endpoint.address(), endpoint.port()) + options.path;
}

}  // namespace

Listeners::Listeners(Rounds& rounds, Admission& admission, Counters& counters, Transport& transport)
    : rounds_(rounds), admission_(admission), counters_(counters), transport_(transport) {}

Listener::Endpoint Listeners::listen(const Listener::Endpoint& endpoint, Listener::Ipv4 ipv4,
                                     const ListenerOptions& options) {
    listeners_.push_back(
        std::make_unique<Listener>(rounds_, endpoint, ipv4, admission_, accept_with(options)));
    return name_last(options);
}

Listener::Endpoint Listeners::listen(const Listener::Endpoint& endpoint, UniqueFd inherited,
                                     const ListenerOptions& options) {
    listeners_.push_back(std::make_unique<Listener>(rounds_, endpoint, std::move(inherited),
                                                    admission_, accept_with(options)));
    return name_last(options);
}

std::vector<int> Listeners::sockets() const {
    std::vector<int> all;
    all.reserve(listeners_.size());
    for (const auto& listener : listeners_) all.push_back(listener->socket());
    return all;
}

/// The function that takes connections of the next listener.
Listener::Accepted Listeners::accept_with(const ListenerOptions& options) {
    const auto number = static_cast<std::uint16_t>(listeners_.size());
    return [this, options, number](UniqueFd socket, const Listener::Endpoint& peer) {
        accept(std::move(socket), peer, options, number);
    };
}

Listener::Endpoint Listeners::name_last(const ListenerOptions& options) {
    auto bound = listeners_.back()->endpoint();
    transport_.name_listener(static_cast<std::uint16_t>(listeners_.size() - 1),
                             listener_name(options, bound));
    return bound;
}

void Listeners::accept(UniqueFd socket, const Listener::Endpoint& peer,
                       const ListenerOptions& options, std::uint16_t number) {
    ++counters_.accepted;
    std::unique_ptr<ConnectionExtras> extras;
    if (!options.plain()) {
        extras = std::make_unique<ConnectionExtras>();
        extras->arrival->handshake = std::make_unique<Handshake>(options, tls_);
    }
    const Address address = options.proxy_protocol ? Address() : Address(peer.address());
    transport_.accept(std::move(socket), std::move(extras), address, number);
}

void Listeners::tick() {
    for (auto& listener : listeners_) listener->tick();
}

void Listeners::rest() {
    for (auto& listener : listeners_) listener->rest();
}

void Listeners::stop() {
    for (auto& listener : listeners_) listener->stop();
}

}  // namespace pulsegate
