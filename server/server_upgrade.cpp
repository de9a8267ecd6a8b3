// How a server passes its clients to another process, and how it takes over from one.
#include <spdlog/spdlog.h>

#include <cstddef>
#include <utility>

#include "server/handover/limits_passage.h"
#include "server/http/admin.h"
#include "server/server.h"
#include "server/session/life/connect_agreement.h"
#include "server/session/terms/homes.h"
#include "server/session/users/history_passage.h"
#include "server/shard/data_store.h"
#include "server/shard/shard.h"
#include "server/transport/tls/tls.h"
#include "server/upgrade/gateway_record.h"

namespace pulsegate {

std::vector<std::pair<std::string, int>> Server::listening_sockets() const {
    std::vector<std::pair<std::string, int>> sockets;
    const std::vector<int> of_admin = admin_->listening();
    auto next_of_admin = of_admin.begin();
    std::size_t number = 0;
    for (const ListenUrl& url : config_.listen) {
        if (!url.for_clients()) {
            sockets.emplace_back(url.text(), *next_of_admin++);
            continue;
        }
        for (const auto& shard : shards_)
            sockets.emplace_back(url.text(), shard->listening()[number]);
        ++number;
    }
    if (const int local = admin_->listening_locally(); local >= 0)
        sockets.emplace_back(local_url(), local);
    return sockets;
}

/// A connected client does not log in again in an upgrade. So settings that let fewer clients in
/// need a restart.
Promises Server::promises(const Config& config) {
    Promises all = connack_promises(config);
    const AuthenticatorSettings& logins = config.authenticator;
    all[promise_of_no_login] = !logins.checks_logins() ? 2 : logins.allow_anonymous;
    all["tls-client-ca"] = config.tls.client_ca.empty();
    return all;
}

GatewayPieces Server::pieces() {
    std::vector<Shard*> shards;
    for (const auto& shard : shards_) shards.push_back(shard.get());
    return {.shards = std::move(shards),
            .admin = *admin_,
            .store = *store_,
            .webhook = webhook_.get(),
            .events = events_.get(),
            .sockets = listening_sockets(),
            .promises = promises(config_),
            .describe = [this] { return encode(describe()); }};
}

// -- what it has in memory only --

/// One shard after the other, because the order of their counts matters.
GatewayRecord Server::describe() {
    const Millis now = monotonic_now();
    GatewayRecord record{.login_wait = admission_.login_rate().ahead(now)};
    pulsegate::describe(address_limits_, record, now);
    for (const auto& shard : shards_)
        shard->call([&](Shard& each) { pulsegate::describe(each.client_limits(), record, now); })
            .get();
    if (tls_) record.ticket_keys = tls_->ticket_keys().describe();
    record.answers = admin_->answers();
    return record;
}

/// The counts do not tell the home shards of their clients. So if the number of shards has changed,
/// each shard gets all counts; those of other shards' clients do no harm.
void Server::adopt(const GatewayRecord& record) {
    const Millis now = monotonic_now();
    admission_.login_rate().adopt(record.login_wait, now);
    admin_->adopt(record.answers);
    pulsegate::adopt(address_limits_, record, now);
    const bool are_as_many = record.shards.size() == shards_.size();
    for (std::size_t to = 0; to < shards_.size(); ++to)
        for (std::size_t from = 0; from < record.shards.size(); ++from)
            if (!are_as_many || from == to)
                pulsegate::adopt(shards_[to]->client_limits(), record.shards[from], now);
    if (const auto lost = adopt_bans(record, now); lost > 0)
        spdlog::error("{} bans or revocations exceed the limit, and are dropped", lost);
}

/// Returns how many bans found no room.
std::size_t Server::adopt_bans(const GatewayRecord& record, Millis now) {
    std::size_t lost = 0;
    for (const BanRecord& each : record.bans) {
        const auto address = Address::parse(each.address);
        const auto home = Homes(shards_.size()).shard_of(each.user);
        lost += !(address ? address_limits_.adopt(*address, ban_of(each), now)
                          : shards_[home]->client_limits().adopt(ban_of(each), now));
    }
    return lost;
}

/// Any shard may have these events, because histories are read from all shards.
bool Server::adopt_history(std::string_view state) {
    const auto record = decode_history(state);
    if (!record) return false;
    pulsegate::adopt(shards_[record->shard % shards_.size()]->broker().admin().history(), *record);
    return true;
}

// -- its clients --

bool Server::adopt(UniqueFd socket, std::string_view state) {
    Shard& home = *shards_[ShardUpgrade::home_of(state, shards_.size())];
    return home.upgrade().adopt(std::move(socket), state) == ShardUpgrade::Adoption::adopted;
}

void Server::finish_adoption() {
    for (const auto& shard : shards_) shard->upgrade().finish_adoption();
}

void Server::count_pause_from(std::chrono::steady_clock::time_point since) {
    const auto pause = std::chrono::steady_clock::now() - since;
    const Millis began =
        monotonic_now() - std::chrono::duration_cast<std::chrono::milliseconds>(pause).count();
    for (const auto& shard : shards_) shard->upgrade().count_pause_from(began);
}

bool Server::divides_rooms() const { return store_->divides_rooms(); }

}  // namespace pulsegate
