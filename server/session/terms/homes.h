#pragma once

#include <cstddef>
#include <string_view>

#include "server/base/hash.h"
#include "server/session/terms/session_id.h"

namespace pulsegate {

/// Which shard is the home of what: each user, each shared subscription and each session has one of
/// the shards as its home.
class Homes {
public:
    Homes(std::size_t shards) : shards_(static_cast<unsigned>(shards)) {}

    unsigned shards() const { return shards_; }

    /// The home of the user or shared subscription with this name. It is the same in every process
    /// with as many shards.
    unsigned shard_of(std::string_view name) const {
        if (shards_ == 1) return 0;
        return static_cast<unsigned>(stable_hash(name) % shards_);
    }
    unsigned shard_of(SessionId session) const { return static_cast<unsigned>(session % shards_); }

    /// The ids of the sessions at home on a shard: the first of them, and the one after another.
    SessionId first_session(unsigned shard) const { return SessionId{shards_} + shard; }
    SessionId session_after(SessionId session) const { return session + shards_; }

private:
    unsigned shards_;
};

}  // namespace pulsegate
