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
/// A check may wait for seconds, and its client may leave meanwhile. So a check begins only when
/// its login has confirmed that the client is still there. A login that can't be checked within the
/// longest wait is refused. Logins with the same credentials share one check. Any thread may use
/// it.
class CheckPool {
public:
    using Ticket = CheckQueue::Ticket;
    using Check = std::function<AuthResult(const Credentials&)>;
    /// Called when the turn of a login has come; then call `begin` or `give_up`, from any thread.
    using Turn = std::function<void(Ticket)>;
    using Answer = std::function<void(AuthResult)>;

    CheckPool(unsigned threads, Millis longest_wait, Check check);
    ~CheckPool() { stop(); }

    /// `credentials` stands for everything that the check's result depends on. Both functions may
    /// be called on any thread, and must neither call back nor throw.
    void add(const CredentialMac& credentials, const Address& address, std::string_view user,
             Turn turn, Answer answer);

    /// Changes the longest wait, also for logins that wait already.
    void use(Millis longest_wait);

    void begin(Ticket ticket, Credentials credentials);
    void give_up(Ticket ticket);

    /// Begins no more checks.
    void begin_stop() { pool_.stop(); }
    /// The same, and waits for the checks under way, which may take seconds. Gives no more answers.
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
    unsigned turns_ = 0;             ///< turns that are offered or in use
    double seconds_a_check_ = 0.01;  ///< a recent average
    boost::asio::thread_pool pool_;
};

}  // namespace pulsegate
