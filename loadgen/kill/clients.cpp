#include "loadgen/kill/clients.h"

#include <algorithm>

namespace pulsegate::kill {

namespace {

constexpr std::uint16_t will_clients = 8;
constexpr std::uint16_t watchers = 4;
constexpr std::uint16_t brief_clients = 8;

}  // namespace

Version version_of(const Options& options, std::size_t client) {
    if (options.v3_1_1 && options.v5_0) return client % 2 == 0 ? Version::v5_0 : Version::v3_1_1;
    return options.v5_0 ? Version::v5_0 : Version::v3_1_1;
}

Clients::Clients(RunContext& context) {
    const auto& options = context.options;
    const auto& receivers = context.receivers;
    for (std::uint16_t i = 0; i < options.publishers; ++i)
        publishers_.push_back(std::make_unique<Publisher>(context, i, version_of(options, i)));
    // The habits are assigned in turn, and the versions so that each habit has receivers of both
    // versions.
    for (std::uint16_t i = 0; i < receivers.all_receivers(); ++i)
        receivers_.push_back(Receiver::one(context, i, version_of(options, i + i / 6)));
    for (std::uint16_t i = 0; i < receivers.groups * receivers.members_of_group; ++i)
        receivers_.push_back(
            Receiver::member(context, receivers.all_receivers() + i / receivers.members_of_group, i,
                             version_of(options, i)));
    if (options.kinds.count(Kind::will) > 0)
        for (std::uint16_t i = 0; i < will_clients; ++i)
            will_clients_.push_back(
                std::make_unique<WillClient>(context, i, version_of(options, i)));
    if (!options.presence) return;
    for (std::uint16_t i = 0; i < watchers; ++i)
        watchers_.push_back(std::make_unique<Watcher>(context, i, version_of(options, i / 2)));
    for (std::uint16_t i = 0; i < brief_clients; ++i)
        brief_clients_.push_back(std::make_unique<BriefClient>(context, i, version_of(options, i)));
}

void Clients::start() {
    for (auto& each : watchers_) each->start();
    for (auto& each : publishers_) each->start();
    for (auto& each : receivers_) each->start();
}

bool Clients::ready() const {
    return std::all_of(receivers_.begin(), receivers_.end(),
                       [](const auto& each) { return each->ready(); });
}

void Clients::live() {
    for (auto& each : publishers_) each->begin();
    for (auto& each : receivers_) each->live_as_it_likes();
    for (auto& each : will_clients_) each->begin();
    for (auto& each : watchers_) each->live_as_it_likes();
    for (auto& each : brief_clients_) each->begin();
}

void Clients::pause(bool paused) {
    for (auto& each : publishers_) each->pause(paused);
}

void Clients::finish() {
    for (auto& each : publishers_) each->finish();
    for (auto& each : receivers_) each->stay();
    for (auto& each : will_clients_) each->finish();
    for (auto& each : watchers_) each->stay();
    for (auto& each : brief_clients_) each->finish();
}

void Clients::reconnect_receivers() {
    for (auto& each : receivers_) each->reconnect();
}

bool Clients::idle() const {
    const auto idle = [](const auto& each) { return each->idle(); };
    return std::all_of(publishers_.begin(), publishers_.end(), idle) &&
           std::all_of(will_clients_.begin(), will_clients_.end(), idle) &&
           std::all_of(receivers_.begin(), receivers_.end(),
                       [](const auto& each) { return each->online(); });
}

void Clients::tick(Time now) {
    for (auto& each : publishers_) each->tick(now);
    for (auto& each : receivers_) each->tick(now);
    for (auto& each : will_clients_) each->tick(now);
    for (auto& each : watchers_) each->tick(now);
    for (auto& each : brief_clients_) each->tick(now);
}

void Clients::broker_ended(BrokerEnd how, Time now) {
    for (auto& each : will_clients_) each->broker_ended(how, now);
}

void Clients::edge_killed(std::uint16_t place, Time now) {
    for (auto& each : receivers_) each->edge_killed(place, now);
    for (auto& each : will_clients_) each->edge_killed(place, now);
}

void Clients::broker_serves(const BrokerStart& start, Time now) {
    for (auto& each : will_clients_) each->broker_serves(start, now);
}

}  // namespace pulsegate::kill
