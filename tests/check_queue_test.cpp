#include "server/login/check_queue.h"

#include <doctest/doctest.h>

#include <boost/asio/ip/address.hpp>
#include <string>
#include <vector>

#include "tests/support/addresses.h"

using namespace pulsegate;

namespace {

using Ticket = CheckQueue::Ticket;
using Tickets = std::vector<Ticket>;

/// What stands for the credentials of this user.
CredentialMac mac(const std::string& user) {
    static const CredentialMacs macs;
    return macs.of({user});
}

struct Queue : CheckQueue {
    Ticket last = 0;

    Ticket add(const std::string& user, std::uint32_t from = 1, Millis now = 0) {
        CheckQueue::add(++last, mac(user), address(from), user, now);
        return last;
    }
};

}  // namespace

TEST_CASE("clients that show the same credentials at the same time share one check") {
    Queue queue;
    queue.add("alice");
    queue.add("alice", 2);
    queue.add("bob");
    CHECK(queue.next() == 1);
    queue.add("alice", 3);
    CHECK(queue.next() == 3);  // bob; alice is being checked
    CHECK_FALSE(queue.next());
    CHECK(queue.waiting() == 0);
    CHECK(queue.finish(1) == Tickets{1, 2, 4});
    CHECK(queue.finish(3) == Tickets{3});
    queue.add("alice");
    CHECK(queue.next() == 5);
}

TEST_CASE(
    "the turn of a client that has gone passes to the next client with the same credentials") {
    Queue queue;
    queue.add("alice");
    queue.add("alice");
    queue.add("alice");
    CHECK(queue.next() == 1);
    CHECK(queue.give_up(1) == 2);
    CHECK_FALSE(queue.next());
    CHECK(queue.finish(2) == Tickets{2, 3});
    queue.add("alice");
    CHECK(queue.next() == 4);
    CHECK_FALSE(queue.give_up(4));
    CHECK_FALSE(queue.next());
}

TEST_CASE("a check that many wait for has a turn as soon as the first of them has one") {
    Queue queue;
    for (int i = 0; i < 3; ++i) queue.add("mallory" + std::to_string(i), 1);
    queue.add("fleet", 1);
    queue.add("fleet", 2);
    CHECK(queue.next() == 1);
    CHECK(queue.next() == 4);
    CHECK(queue.finish(4) == Tickets{4, 5});
    CHECK(queue.next() == 2);
    CHECK(queue.next() == 3);
    CHECK_FALSE(queue.next());
}

TEST_CASE("logins that have waited too long are taken out, unless their check has begun") {
    Queue queue;
    queue.add("alice", 1, 0);
    queue.add("bob", 1, 10);
    queue.add("alice", 1, 20);
    queue.add("carol", 1, 30);
    CHECK(queue.next() == 1);
    CHECK(queue.take_older_than(20) == 2);
    CHECK(queue.take_older_than(20) == 3);
    CHECK_FALSE(queue.take_older_than(20));
    CHECK(queue.finish(1) == Tickets{1});
    CHECK(queue.next() == 4);
}

TEST_CASE("when too many logins wait, the login with the last turn is refused") {
    Queue queue;
    for (int i = 0; i < 3; ++i) queue.add("mallory" + std::to_string(i), 1);
    queue.add("alice", 2);
    CHECK(queue.drop_last() == Tickets{3});
    CHECK(queue.drop_last() == Tickets{2});
    CHECK(queue.next() == 1);
    CHECK(queue.next() == 4);
    CHECK(queue.drop_last().empty());
}

TEST_CASE("a fleet with one password waits for one turn at each address, and stays for the last") {
    Queue queue;
    for (int i = 0; i < 100; ++i) queue.add("fleet", 1);
    for (int i = 0; i < 100; ++i) queue.add("fleet", 2);
    CHECK(queue.waiting() == 2);
    CHECK(queue.drop_last().empty());
    CHECK(queue.waiting() == 1);
    CHECK(queue.drop_last().size() == 200);
    CHECK(queue.waiting() == 0);
    CHECK_FALSE(queue.next());
}
