#pragma once

#include <boost/asio/thread_pool.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string_view>
#include <vector>

#include "server/auth/auth_result.h"
#include "server/auth/credential_mac.h"
#include "server/auth/credentials.h"
#include "server/base/clock.h"
#include "server/limits/address.h"
#include "server/login/check_queue.h"

namespace pulsegate {

/// Threads that check credentials, and the logins that wait for them.
///
/// A check takes up to seconds, and clients go meanwhile. So a check begins only when the login has
/// said again that its client is there. A login that can't be checked within the longest wait is
/// refused. Logins with the same credentials share one check. Any thread may use it.
class CheckPool {
public:
    using Ticket = CheckQueue::Ticket;
    using Check = std::function<AuthResult(const Credentials&)>;
    /// Told when the turn of a login has come: `begin` or `give_up` must follow, from any thread.
    using Turn = std::function<void(Ticket)>;
    using Answer = std::function<void(AuthResult)>;

    CheckPool(unsigned threads, Millis longest_wait, Check check);
    ~CheckPool() { stop(); }

    /// `credentials` stands for all that the check's result depends on. Both functions are called
    /// on any thread; they must not call back, nor throw.
    void add(const CredentialMac& credentials, const Address& address, std::string_view user,
             Turn turn, Answer answer);

    /// Another longest wait, for those who wait already as well.
    void use(Millis longest_wait);

    void begin(Ticket ticket, Credentials credentials);
    void give_up(Ticket ticket);

    /// Begins no more checks.
    void begin_stop() { pool_.stop(); }
    /// The same, and waits for those under way, which may take seconds: no answers any more.
    void stop();

private:
    struct Login {
        Turn turn;
        Answer answer;
    };
    using Answers = std::vector<Answer>;

    void run(Ticket ticket, const Credentials& credentials);
    void offer_turns();
    void offer(Ticket ticket);
    void refuse_late(Millis now);
    void refuse(Ticket ticket);
    std::size_t places() const;
    Login take(Ticket ticket);

    const unsigned threads_;
    const Check check_;
    std::mutex mutex_;
    Millis longest_wait_;
    CheckQueue queue_;
    boost::unordered_flat_map<Ticket, Login> logins_;
    Ticket last_ticket_ = 0;
    unsigned turns_ = 0;             ///< that are offered or used now
    double seconds_a_check_ = 0.01;  ///< lately
    boost::asio::thread_pool pool_;
};

}  // namespace pulsegate
