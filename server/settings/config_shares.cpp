// What one user may have of a limit, and what sessions and retained messages may have of the
// memory, unless it is stated.
#include <algorithm>

#include "server/base/machine.h"
#include "server/settings/config_options.h"

namespace pulsegate {

namespace {

constexpr std::size_t least_unstored_bytes = 1024 * 1024;
constexpr std::size_t least_user_memory = 64 * 1024;
constexpr std::size_t least_will_bytes = 1024 * 1024;

void complete(std::size_t& value, std::size_t usual, std::size_t part) {
    if (value == by_share) value = std::min(usual, part);
}

/// A tenth of all, but with room for one, if there is any.
std::size_t share_of(std::size_t all, std::size_t one) {
    return std::max(all / 10, std::min(all, one));
}

}  // namespace

void leave_shares_open(Config& config) {
    for (std::size_t* value :
         {&config.persistent_session_bytes, &config.max_retained_bytes, &config.max_user_memory,
          &config.max_retained_messages_per_user, &config.max_retained_bytes_per_user,
          &config.max_inboxes_per_user, &config.max_delayed_messages_per_user,
          &config.max_delayed_bytes_per_user})
        *value = by_share;
}

void complete_shares(Config& config) {
    const BrokerSettings usual;
    const auto stated = config.admission.memory_budget;
    const std::size_t budget = stated != 0 ? stated : available_memory() / 4 * 3;
    const std::size_t message = config.max_packet_size + 1024;
    complete(config.persistent_session_bytes, usual.persistent_session_bytes, budget / 2);
    complete(config.max_retained_bytes, usual.max_retained_bytes, budget / 4);
    complete(config.max_user_memory, usual.max_user_memory,
             std::max(budget / 10, least_user_memory));
    // What waits for the store is in memory two or three times, while it is written.
    config.most_unstored_bytes = std::clamp(budget / 64 / std::max(config.shards, 1u),
                                            least_unstored_bytes, usual.most_unstored_bytes);
    config.most_will_bytes = std::max(budget / 8, least_will_bytes);
    complete(config.max_retained_messages_per_user, usual.max_retained_messages_per_user,
             share_of(config.max_retained_messages, 1));
    complete(config.max_retained_bytes_per_user, usual.max_retained_bytes_per_user,
             share_of(config.max_retained_bytes, message));
    complete(config.max_inboxes_per_user, usual.max_inboxes_per_user,
             share_of(config.max_inboxes, 1));
    complete(config.max_delayed_messages_per_user, usual.max_delayed_messages_per_user,
             share_of(config.max_delayed_messages, 1));
    complete(config.max_delayed_bytes_per_user, usual.max_delayed_bytes_per_user,
             share_of(config.max_delayed_bytes, message));
}

}  // namespace pulsegate
