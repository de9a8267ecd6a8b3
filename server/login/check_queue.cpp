#include "server/login/check_queue.h"

namespace pulsegate {

void CheckQueue::add(Ticket ticket, const CredentialMac& credentials, const Address& address,
                     std::string_view user, Millis now) {
    logins_.emplace(ticket, Login{credentials, now});
    Check& check = checks_[credentials];
    check.logins.insert(ticket);
    queue_.add(address, user, ticket);
}

std::optional<CheckQueue::Ticket> CheckQueue::next() {
    while (const auto ticket = queue_.take_first()) {
        Check& check = checks_.at(logins_.at(*ticket).credentials);
        if (check.leader != 0) continue;  // it waits for the result
        check.leader = *ticket;
        return ticket;
    }
    return std::nullopt;
}

std::optional<CheckQueue::Ticket> CheckQueue::give_up(Ticket ticket) {
    const auto login = logins_.find(ticket);
    const CredentialMac credentials = login->second.credentials;
    remove(login);
    const auto check = checks_.find(credentials);
    if (check == checks_.end()) return std::nullopt;
    check->second.leader = *check->second.logins.begin();
    queue_.remove(check->second.leader);
    return check->second.leader;
}

std::vector<CheckQueue::Ticket> CheckQueue::finish(Ticket ticket) {
    const auto check = checks_.find(logins_.at(ticket).credentials);
    const std::vector<Ticket> done(check->second.logins.begin(), check->second.logins.end());
    for (const Ticket each : done) {
        queue_.remove(each);
        logins_.erase(each);
    }
    checks_.erase(check);
    return done;
}

std::optional<CheckQueue::Ticket> CheckQueue::take_last() {
    const auto ticket = queue_.take_last();
    if (ticket) remove(logins_.find(*ticket));
    return ticket;
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

void CheckQueue::remove(Logins::iterator login) {
    const auto [ticket, about] = *login;
    queue_.remove(ticket);
    const auto check = checks_.find(about.credentials);
    check->second.logins.erase(ticket);
    if (check->second.logins.empty()) checks_.erase(check);
    logins_.erase(login);
}

}  // namespace pulsegate
