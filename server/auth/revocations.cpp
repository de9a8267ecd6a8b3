#include "server/auth/revocations.h"

#include <algorithm>

namespace pulsegate {

bool Revocations::revoke(std::string_view user, std::int64_t before) {
    thread_.assert_here();
    if (const auto known = before_.find(user); known != before_.end()) {
        known->second = std::max(known->second, before);
        return true;
    }
    if (before_.size() >= most_users || name_bytes_ + user.size() > most_name_bytes) return false;
    before_.emplace(user, before);
    name_bytes_ += user.size();
    return true;
}

bool Revocations::revoked(std::string_view user, std::int64_t issued) const {
    thread_.assert_here();
    const auto known = before_.find(user);
    return known != before_.end() && issued < known->second;
}

}  // namespace pulsegate
