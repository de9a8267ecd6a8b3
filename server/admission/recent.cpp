#include "server/admission/recent.h"

#include <boost/container_hash/hash.hpp>
#include <random>

namespace pulsegate {

std::uint64_t fingerprint(std::string_view first, std::string_view second) {
    static const std::size_t secret = std::random_device{}() * 0x9E37'79B9'7F4A'7C15u;
    std::size_t key = secret;
    boost::hash_combine(key, first);
    boost::hash_combine(key, second);
    return key;
}

}  // namespace pulsegate
