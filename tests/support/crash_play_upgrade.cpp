// Upgrades in a CrashPlay.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/upgrade/record_codec.h"
#include "tests/support/crash_play.h"
#include "tests/support/session_model.h"

namespace pulsegate {

void CrashPlay::upgrade(unsigned shards) {
    if (!freeze()) return log("it is not upgraded: the store refuses");
    log(fmt::format("upgrade to {} shards", shards));
    note_versions();
    const auto before = versions_;
    for (DurableClient& client : clients_)
        if (auto record = client.describe(now_))
            passing_.emplace_back(&client, *std::move(record));
        else
            client.crash();
    committed_ = std::max(committed_, ledger_->committed());
    for (const PresenceChange& change : cluster_->recorded)
        told_[change.user] = {change.version, change.online};
    cluster_.reset();
    ledger_.reset();
    scene_.shards = shards;
    start();
    passing_.clear();
    for (DurableClient& client : clients_) client.forget_links();
    if (!cluster_->recorded.empty()) throw Broken("somebody's presence changes in an upgrade");
    note_versions();
    for (const auto& [user, version] : before)
        if (versions_[user].number != version.number || versions_[user].online != version.online)
            throw Broken(fmt::format("the presence of {} is another one", user));
}

void CrashPlay::fail_to_upgrade() {
    log("it begins to upgrade, and goes on");
    static_cast<void>(freeze());
    for (unsigned shard = 0; shard < scene_.shards; ++shard)
        cluster_->broker(shard).passage().go_on();
    finish_turn();
}

/// Nobody is read meanwhile.
bool CrashPlay::freeze() {
    for (bool is_settled = false; !is_settled;) {
        is_settled = !cluster_->has_messages();
        while (cluster_->has_messages()) {
            static_cast<void>(cluster_->deliver(cluster_->pairs_with_messages().front()));
            cluster_->end_turn();
        }
        for (unsigned shard = 0; shard < scene_.shards; ++shard)
            is_settled &= cluster_->broker(shard).passage().settle(now_);
        is_settled &= !cluster_->has_messages();
        ledger_->commit(true);
        if (store_refuses()) return false;
    }
    return true;
}

/// As it comes from the other process.
void CrashPlay::adopt() {
    for (const auto& [client, record] : passing_) {
        const auto passed = decode(encode({.session = record}));
        if (!passed || passed->session != record) throw Broken("a record is damaged");
        client->pass(*cluster_, passed->session);
    }
    for (unsigned shard = 0; shard < scene_.shards; ++shard)
        cluster_->broker(shard).passage().finish(now_);
}

}  // namespace pulsegate
