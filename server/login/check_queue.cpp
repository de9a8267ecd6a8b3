#include "server/login/check_queue.h"

namespace pulsegate {

void CheckQueue::add(Ticket ticket, const CredentialMac& credentials, const Address& address,
                     std::string_view user, Millis now) {
    logins_.emplace(ticket, Login{credentials, now});
    Check& check = checks_[credentials];
    check.logins.insert(ticket);
    if (check.leader != 0 || !check.turns.emplace(address, ticket).second) return;
    turns_.emplace(ticket, Turn{credentials, address});
    queue_.add(address, user, ticket);
}

std::optional<CheckQueue::Ticket> CheckQueue::next() {
    const auto turn = queue_.take_first();
    if (!turn) return std::nullopt;
    Check& check = checks_.at(turns_.at(*turn).credentials);
    withdraw_turns(check);
    check.leader = *check.logins.begin();
    return check.leader;
}

std::optional<CheckQueue::Ticket> CheckQueue::give_up(Ticket leader) {
    const auto login = logins_.find(leader);
    const CredentialMac credentials = login->second.credentials;
    remove(login);
    const auto check = checks_.find(credentials);
    if (check == checks_.end()) return std::nullopt;
    check->second.leader = *check->second.logins.begin();
    return check->second.leader;
}

CheckQueue::Tickets CheckQueue::finish(Ticket leader) {
    const auto check = checks_.find(logins_.at(leader).credentials);
    Tickets done(check->second.logins.begin(), check->second.logins.end());
    for (const Ticket ticket : done) logins_.erase(ticket);
    checks_.erase(check);
    return done;
}

CheckQueue::Tickets CheckQueue::drop_last() {
    const auto turn = queue_.take_last();
    if (!turn) return {};
    const auto [credentials, address] = turns_.at(*turn);
    turns_.erase(*turn);
    Check& check = checks_.at(credentials);
    check.turns.erase(address);
    if (!check.turns.empty()) return {};
    return finish(*check.logins.begin());
}

std::optional<CheckQueue::Ticket> CheckQueue::take_older_than(Millis then) {
    for (auto login = logins_.begin(); login != logins_.end(); ++login) {
        const auto [ticket, about] = *login;
        if (about.since > then) return std::nullopt;
        if (checks_.at(about.credentials).leader == ticket) continue;
        remove(login);
        return ticket;
    }
    return std::nullopt;
}

void CheckQueue::withdraw_turns(Check& check) {
    for (const auto& [address, turn] : check.turns) {
        turns_.erase(turn);
        queue_.remove(turn);
    }
    check.turns.clear();
}

void CheckQueue::remove(Logins::iterator login) {
    const auto [ticket, about] = *login;
    const auto check = checks_.find(about.credentials);
    check->second.logins.erase(ticket);
    if (check->second.logins.empty()) {
        withdraw_turns(check->second);
        checks_.erase(check);
    }
    logins_.erase(login);
}

}  // namespace pulsegate
