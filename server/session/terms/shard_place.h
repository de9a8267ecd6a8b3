#pragma once

#include <string_view>

#include "server/base/hash.h"
#include "server/session/terms/session_id.h"

namespace pulsegate {

/// The number of this shard and of all shards. Each user and each shared subscription has one of
/// them as its home.
struct ShardPlace {
    unsigned index;
    unsigned count;

    unsigned home_of(std::string_view name) const { return home_shard(name, count); }
    unsigned home_of(SessionId session) const { return static_cast<unsigned>(session % count); }
    bool is_home_of(std::string_view name) const { return home_of(name) == index; }
};

}  // namespace pulsegate
