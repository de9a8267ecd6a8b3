#include "server/login/check_pool.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/addresses.h"

using namespace pulsegate;

namespace {

/// A pool of one thread with checks that end when they are told to, and clients that are there
/// unless they are said to have gone.
class Checked {
public:
    explicit Checked(Millis longest_wait = 60'000)
        : pool_(1, longest_wait,
                [this](const Credentials& credentials) { return check(credentials); }) {}
    ~Checked() { open_gate(); }

    std::future<AuthResult> login(const std::string& user, std::uint32_t from = 1) {
        auto promise = std::make_shared<std::promise<AuthResult>>();
        auto answer = promise->get_future();
        // The turn may be offered at once, by this call, so the answer comes from elsewhere.
        pool_.add(
            macs_.of({user}), address(from), user,
            [this, user](CheckPool::Ticket ticket) {
                const std::lock_guard lock(mutex_);
                offered_.emplace_back(ticket, user);
            },
            [promise](AuthResult result) { promise->set_value(std::move(result)); });
        return answer;
    }

    /// Lets the logins with a turn go on, until none has one.
    void serve() {
        for (;;) {
            std::vector<std::pair<CheckPool::Ticket, std::string>> turns;
            {
                const std::lock_guard lock(mutex_);
                turns.swap(offered_);
            }
            if (turns.empty()) return;
            for (const auto& [ticket, user] : turns) {
                if (gone.contains(user))
                    pool_.give_up(ticket);
                else
                    pool_.begin(ticket, {user, "", "", ""});
            }
        }
    }

    /// Checks end from now on.
    void open_gate() {
        if (!std::exchange(open_, true)) gate_.set_value();
    }

    std::vector<std::string> checked() {
        const std::lock_guard lock(mutex_);
        return checked_;
    }

    void use(Millis longest_wait) { pool_.use(longest_wait); }

    std::set<std::string> gone;

private:
    AuthResult check(const Credentials& credentials) {
        passed_.wait();
        const std::lock_guard lock(mutex_);
        checked_.push_back(credentials.user);
        return {.user = credentials.user};
    }

    const CredentialMacs macs_;
    std::promise<void> gate_;
    const std::shared_future<void> passed_ = gate_.get_future().share();
    bool open_ = false;
    std::mutex mutex_;
    std::vector<std::pair<CheckPool::Ticket, std::string>> offered_;
    std::vector<std::string> checked_;
    CheckPool pool_;
};

/// Serves until the answer is there.
AuthResult answer_of(std::future<AuthResult>& answer, Checked& checked) {
    while (answer.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready)
        checked.serve();
    return answer.get();
}

}  // namespace

TEST_CASE("what a hundred clients show is checked once, and all are answered") {
    Checked checked;
    std::vector<std::future<AuthResult>> answers;
    for (int i = 0; i < 100; ++i) answers.push_back(checked.login("fleet"));
    checked.open_gate();
    for (auto& answer : answers) CHECK(answer_of(answer, checked).user == "fleet");
    CHECK(checked.checked() == std::vector<std::string>{"fleet"});
}

TEST_CASE("no check is computed for a client that has gone") {
    Checked checked;
    std::vector<std::future<AuthResult>> answers;
    for (int i = 0; i < 100; ++i) {
        const auto name = std::to_string(i);
        answers.push_back(checked.login(name));
        if (i % 10 != 0) checked.gone.insert(name);
    }
    checked.open_gate();
    for (std::size_t i = 0; i < answers.size(); i += 10)
        CHECK(answer_of(answers[i], checked).user == std::to_string(i));
    CHECK(checked.checked().size() == 10);
}

TEST_CASE(
    "a login that can't be checked in time is refused at once, and other addresses keep their "
    "places") {
    StoppedClock clock;
    Checked checked(500);  // a check is taken for 10 ms until one was measured
    std::vector<std::future<AuthResult>> answers;
    for (int i = 0; i < 200; ++i) answers.push_back(checked.login(std::to_string(i)));
    int refused = 0;
    for (auto& answer : answers) {
        if (answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready) continue;
        CHECK(answer.get().reason == Reason::server_busy);
        ++refused;
    }
    CHECK(refused == 200 - 50 - 2);  // two have their turn

    auto alice = checked.login("alice", 2);
    checked.serve();
    checked.open_gate();
    CHECK(answer_of(alice, checked).user == "alice");
    const auto order = checked.checked();
    CHECK(std::find(order.begin(), order.end(), "alice") - order.begin() <= 3);
}

TEST_CASE("a login that has waited too long is refused without a check") {
    StoppedClock clock;
    Checked checked(500);
    auto first = checked.login("first");
    auto second = checked.login("second");
    auto third = checked.login("third");
    checked.serve();
    clock.advance(501);
    auto fourth = checked.login("fourth");
    CHECK(answer_of(third, checked).reason == Reason::server_busy);
    checked.open_gate();
    CHECK(answer_of(first, checked).user == "first");
    CHECK(answer_of(second, checked).user == "second");
    CHECK(answer_of(fourth, checked).user == "fourth");
    CHECK(checked.checked() == std::vector<std::string>{"first", "second", "fourth"});
}

TEST_CASE("a changed longest wait applies to logins that wait already") {
    StoppedClock clock;
    Checked checked(60'000);
    auto first = checked.login("first");
    auto second = checked.login("second");
    auto third = checked.login("third");
    checked.serve();
    clock.advance(501);
    checked.use(500);
    auto fourth = checked.login("fourth");
    CHECK(answer_of(third, checked).reason == Reason::server_busy);
    checked.open_gate();
    CHECK(answer_of(first, checked).user == "first");
    CHECK(answer_of(second, checked).user == "second");
    CHECK(answer_of(fourth, checked).user == "fourth");
}
