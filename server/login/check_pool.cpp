#include "server/login/check_pool.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <optional>
#include <utility>

#include "server/base/machine.h"

namespace pulsegate {

namespace {

using Seconds = std::chrono::duration<double>;

/// If checks are shorter than this, the next one is offered its turn while one still runs, so no
/// thread waits for an event loop.
constexpr double short_check = 0.1;

}  // namespace

CheckPool::CheckPool(unsigned threads, Millis longest_wait, Check check)
    : threads_(threads), check_(std::move(check)), longest_wait_(longest_wait), pool_(threads) {}

void CheckPool::use(Millis longest_wait) {
    const std::lock_guard lock(mutex_);
    longest_wait_ = longest_wait;
}

void CheckPool::add(const CredentialMac& credentials, const Address& address, std::string_view user,
                    Turn turn, Answer answer) {
    const Millis now = monotonic_now();
    const std::lock_guard lock(mutex_);
    const Ticket ticket = ++last_ticket_;
    logins_.emplace(ticket, Login{std::move(turn), std::move(answer)});
    queue_.add(ticket, credentials, address, user, now);
    refuse_late(now);
    offer_turns();
    while (queue_.waiting() > places())
        for (const Ticket last : queue_.drop_last()) refuse(last);
}

/// The most turns that may wait: as many checks as fit into the longest wait.
std::size_t CheckPool::places() const {
    const double wait = static_cast<double>(longest_wait_) / 1000;
    return static_cast<std::size_t>(wait / seconds_a_check_ * threads_);
}

void CheckPool::offer_turns() {
    const unsigned most = seconds_a_check_ < short_check ? 2 * threads_ : threads_;
    while (turns_ < most) {
        const auto ticket = queue_.next();
        if (!ticket) return;
        ++turns_;
        offer(*ticket);
    }
}

void CheckPool::offer(Ticket ticket) { logins_.at(ticket).turn(ticket); }

void CheckPool::begin(Ticket ticket, Credentials credentials) {
    boost::asio::post(
        pool_, [this, ticket, credentials = std::move(credentials)] { run(ticket, credentials); });
}

void CheckPool::run(Ticket ticket, const Credentials& credentials) {
    name_thread("passwords");
    const auto began = std::chrono::steady_clock::now();
    const AuthResult result = check_(credentials);
    const double seconds = Seconds(std::chrono::steady_clock::now() - began).count();

    std::unique_lock lock(mutex_);
    constexpr double weight = 0.125;
    seconds_a_check_ += (std::max(seconds, 1e-6) - seconds_a_check_) * weight;
    Answers answers;
    for (const Ticket done : queue_.finish(ticket)) answers.push_back(take(done).answer);
    --turns_;
    refuse_late(monotonic_now());
    offer_turns();
    lock.unlock();
    for (const Answer& answer : answers) answer(result);
}

void CheckPool::give_up(Ticket ticket) {
    const std::lock_guard lock(mutex_);
    take(ticket);
    if (const auto next = queue_.give_up(ticket)) return offer(*next);
    --turns_;
    offer_turns();
}

void CheckPool::refuse_late(Millis now) {
    while (const auto ticket = queue_.take_older_than(now - longest_wait_)) refuse(*ticket);
}

void CheckPool::refuse(Ticket ticket) {
    take(ticket).answer(
        {.reason = Reason::server_busy, .why = "too many logins wait for password checks"});
}

CheckPool::Login CheckPool::take(Ticket ticket) {
    const auto found = logins_.find(ticket);
    Login login = std::move(found->second);
    logins_.erase(found);
    return login;
}

void CheckPool::stop() {
    pool_.stop();
    pool_.join();
}

}  // namespace pulsegate
