#include "server/auth/revocations.h"

#include <algorithm>

namespace pulsegate {

bool Revocations::revoke(std::string_view user, std::int64_t before, Millis now) {
    thread_.assert_here();
    if (const auto known = orders_.find(user); known != orders_.end()) {
        known->second = {std::max(known->second.before, before), now};
        return true;
    }
    if (orders_.size() >= most_users || name_bytes_ + user.size() > most_name_bytes) return false;
    orders_.emplace(user, Order{before, now});
    name_bytes_ += user.size();
    return true;
}

bool Revocations::revoked(std::string_view user, std::int64_t issued) const {
    thread_.assert_here();
    const auto known = orders_.find(user);
    return known != orders_.end() && issued < known->second.before;
}

bool Revocations::revoked_since(std::string_view user, Millis asked) const {
    thread_.assert_here();
    const auto known = orders_.find(user);
    return known != orders_.end() && asked <= known->second.given;
}

}  // namespace pulsegate
