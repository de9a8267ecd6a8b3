// What the server does when another process takes its place, or it takes that of another.
#include <utility>

#include "server/http/admin.h"
#include "server/server.h"
#include "server/shard/data_store.h"
#include "server/shard/shard.h"

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

GatewayPieces Server::pieces() {
    std::vector<Shard*> shards;
    for (const auto& shard : shards_) shards.push_back(shard.get());
    return {.shards = std::move(shards),
            .admin = *admin_,
            .store = *store_,
            .webhook = webhook_.get(),
            .events = events_.get(),
            .sockets = listening_sockets()};
}

bool Server::adopt(UniqueFd socket, std::string_view state) {
    Shard& home = *shards_[Shard::home_of(state, static_cast<unsigned>(shards_.size()))];
    return home.adopt(std::move(socket), state) == Shard::Adoption::adopted;
}

void Server::finish_adoption() {
    for (const auto& shard : shards_) shard->finish_adoption();
}

bool Server::divides_rooms() const { return store_->divides_rooms(); }

}  // namespace pulsegate
