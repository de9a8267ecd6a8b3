#include "server/session/session.h"

#include "server/base/hash.h"

namespace pulsegate {

std::uint64_t Session::fingerprint() const { return keyed_hash(user.name, client); }

}  // namespace pulsegate
