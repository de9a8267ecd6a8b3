#include "server/session/client_search.h"

#include <algorithm>
#include <cstdint>

#include "server/session/state/session.h"
#include "server/session/users/presence_entry.h"

namespace pulsegate {

namespace {

PresencePosition right_before(PresencePosition position) {
    if (position.user-- == 0) --position.version;
    return position;
}

/// Collects the earliest of possibly very many sessions.
class EarliestSessions {
public:
    explicit EarliestSessions(std::size_t most) : most_(most) {}

    void add(const Session& session) {
        if (sessions_.size() == most_) {
            is_full_ = true;
            if (session.id > sessions_.front()->id) return;
            std::ranges::pop_heap(sessions_, {}, id_of);
            sessions_.pop_back();
        }
        sessions_.push_back(&session);
        std::ranges::push_heap(sessions_, {}, id_of);
    }

    const std::vector<const Session*>& sorted() {
        std::ranges::sort_heap(sessions_, {}, id_of);
        return sessions_;
    }
    /// True if there are more than these.
    bool is_full() const { return is_full_; }

private:
    static SessionId id_of(const Session* session) { return session->id; }

    const std::size_t most_;
    std::vector<const Session*> sessions_;
    bool is_full_ = false;
};

}  // namespace

ClientSearch::ClientSearch(const Presence& presence, const ClientDescriber& describer,
                           const ClientFilter& filter, std::size_t most)
    : presence_(presence),
      describer_(describer),
      filter_(filter),
      most_(std::min(most, clients_a_turn)) {}

ClientsFound ClientSearch::some(ClientPosition after) {
    after_ = after;
    const auto begin = after.session == 0 ? after.user : right_before(after.user);
    std::optional<ClientPosition> within;
    const auto rest = presence_.visit_entries(begin, users_a_turn, [&](PresenceEntry& entry) {
        if (!visit(entry)) within = ClientPosition{entry.position(), found_.clients.back().session};
        const bool has_room = found_.clients.size() < most_ && bytes_found() < bytes_a_turn;
        return !within && has_room ? Visited::done : Visited::enough;
    });
    if (within)
        found_.next = within;
    else if (rest)
        found_.next = ClientPosition{*rest};
    return std::move(found_);
}

ClientsFound ClientSearch::some_of(User& user, SessionId after) {
    if (!add_sessions(user, after))
        found_.next = ClientPosition{user.position(), found_.clients.back().session};
    return std::move(found_);
}

/// Returns false if some of the user's clients are left.
bool ClientSearch::visit(PresenceEntry& entry) {
    if (entry.is_packed) {
        add_packed(entry);
        return true;
    }
    const bool may_be_begun = after_.session != 0 && entry.version == after_.user.version;
    const bool is_begun = may_be_begun && entry.position().user == after_.user.user;
    return add_sessions(static_cast<User&>(entry), is_begun ? after_.session : 0);
}

std::size_t ClientSearch::bytes_found() {
    for (; summed_ < found_.clients.size(); ++summed_) bytes_ += found_.clients[summed_].bytes();
    return bytes_;
}

bool ClientSearch::may_be_away() const {
    return !filter_.connected.value_or(false) && !filter_.address && filter_.listener.empty() &&
           filter_.connected_since == 0;
}

void ClientSearch::add_packed(const PresenceEntry& entry) {
    const auto& record = static_cast<const PackedRecord&>(entry);
    if (may_be_away() && record.client().starts_with(filter_.client_prefix))
        found_.clients.push_back(ClientDescriber::describe(record));
}

bool ClientSearch::add_sessions(User& user, SessionId behind) {
    EarliestSessions earliest(most_ - found_.clients.size());
    for (const Device& device : user.devices) {
        const auto& session = static_cast<const Session&>(device);
        if (session.id > behind && matches(session)) earliest.add(session);
    }
    for (const Session* session : earliest.sorted())
        found_.clients.push_back(describer_.describe(*session));
    return !earliest.is_full();
}

bool ClientSearch::matches(const Session& session) const {
    if (session.is_inbox() || !session.client.starts_with(filter_.client_prefix)) return false;
    if (!session.link) return may_be_away();
    return filter_.connected.value_or(true) && session.since >= filter_.connected_since &&
           (filter_.listener.empty() || session.link->listener() == filter_.listener) &&
           (!filter_.address || filter_.address->contains(session.link->address()));
}

}  // namespace pulsegate
