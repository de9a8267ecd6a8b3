#include "server/session/state/memory_limits.h"

#include <algorithm>

#include "protocol/topic.h"

namespace pulsegate {

namespace {

/// If memory is scarce, at most this many sessions of a user outlive their connections.
constexpr std::size_t sessions_if_scarce = 16;

}  // namespace

std::optional<Refusal> MemoryLimits::objection(const Session& session, std::size_t more) const {
    if (session.kept() + more > settings_.max_client_memory)
        return Refusal{Reason::quota_exceeded,
                       "its subscriptions, will and topic aliases reach max-client-memory",
                       Limit::max_client_memory};
    if (session.user.kept + more > settings_.max_user_memory)
        return Refusal{Reason::quota_exceeded,
                       "the data of its user's clients reaches max-user-memory",
                       Limit::max_user_memory};
    return std::nullopt;
}

std::optional<Refusal> MemoryLimits::objection_if_scarce(const Session& session,
                                                         std::size_t more) const {
    if (is_scarce())
        return Refusal{Reason::quota_exceeded, "memory-budget is nearly used up",
                       Limit::memory_budget};
    return objection(session, more);
}

std::optional<Refusal> MemoryLimits::objection_to_will(const User& user, const Session* known,
                                                       bool resumes, std::size_t more) const {
    if (more > small_message && is_scarce())
        return Refusal{Reason::quota_exceeded,
                       "memory-budget is nearly used up, and its will takes more than 1 KiB",
                       Limit::memory_budget};
    if (more > small_message && wills_.get() + more > settings_.most_will_bytes)
        return Refusal{
            Reason::quota_exceeded,
            "the wills of all clients take an eighth of memory-budget, and its own takes "
            "more than 1 KiB",
            Limit::memory_budget};
    const std::size_t stays = known && resumes ? known->kept_by_state() : 0;
    if (stays + more > settings_.max_client_memory)
        return Refusal{Reason::quota_exceeded,
                       "its will and subscriptions exceed max-client-memory",
                       Limit::max_client_memory};
    const std::size_t of_others = user.kept - (known ? known->kept() : 0);
    if (of_others + stays + more > settings_.max_user_memory)
        return Refusal{Reason::quota_exceeded, "with its will, its user exceeds max-user-memory",
                       Limit::max_user_memory};
    return std::nullopt;
}

/// Empty sessions are small, but a user may begin any number of them.
std::optional<Refusal> MemoryLimits::objection_to_session(const User& user) const {
    const MemoryState memory = host_.memory();
    if (memory == MemoryState::plenty) return std::nullopt;
    std::size_t room = memory == MemoryState::scarce ? sessions_if_scarce : 1;
    for (const Device& device : user.devices) {
        const bool is_kept = static_cast<const Session&>(device).state.expiry() > 0;
        if (!is_kept || device.is_inbox() || --room > 0) continue;
        return Refusal{Reason::quota_exceeded,
                       "memory-budget is nearly used up, and its user has other sessions",
                       Limit::memory_budget};
    }
    return std::nullopt;
}

bool MemoryLimits::has_room_for_alias(const Session& session, std::size_t more) const {
    return session.kept() + more <= settings_.max_client_memory / 2 &&
           session.user.kept + more <= settings_.max_user_memory / 2 && !is_scarce();
}

std::size_t cost_of_subscription(std::string_view filter) {
    constexpr std::size_t bookkeeping = 200;
    constexpr std::size_t level = 512;
    const std::size_t text = bookkeeping + filter.size();
    if (!has_wildcard(filter)) return text;
    const auto levels = static_cast<std::size_t>(std::count(filter.begin(), filter.end(), '/')) + 1;
    return text + levels * level;
}

}  // namespace pulsegate
