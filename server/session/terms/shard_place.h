#pragma once

#include <string_view>

#include "server/session/terms/homes.h"
#include "server/session/terms/session_id.h"

namespace pulsegate {

/// The number of this shard, and the homes on all shards.
struct ShardPlace {
    unsigned index;
    Homes homes;

    unsigned home_of(std::string_view name) const { return homes.shard_of(name); }
    unsigned home_of(SessionId session) const { return homes.shard_of(session); }
    bool is_home_of(std::string_view name) const { return home_of(name) == index; }
};

}  // namespace pulsegate
