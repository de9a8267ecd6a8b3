#include "server/session/session.h"

#include <boost/container_hash/hash.hpp>

namespace pulsegate {

std::uint64_t Session::fingerprint() const {
    std::size_t seed = boost::hash<std::string_view>()(client);
    boost::hash_combine(seed, user.name);
    return seed;
}

}  // namespace pulsegate
