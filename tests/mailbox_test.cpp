#include "server/loop/mailbox.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

using namespace pulsegate;

namespace {

/// Runs all that is posted, and what that posts.
void run_all(EventLoop& loop) {
    for (int round = 0; round < 20; ++round) loop.run_round(0);
}

}  // namespace

TEST_CASE("a burst of items wakes the owner once and arrives in order") {
    EventLoop loop;
    Mailbox<int> mailbox(loop);
    std::vector<int> got;
    int wakes = 0;
    const auto drain = [&] {
        ++wakes;
        while (const auto item = mailbox.next()) got.push_back(*item);
    };
    for (int i = 0; i < 3; ++i) mailbox.send(i, 1, drain);
    CHECK(wakes == 0);  // nothing happens on the sender's side
    run_all(loop);
    CHECK(wakes == 1);
    CHECK(got == std::vector{0, 1, 2});
    CHECK_FALSE(mailbox.next());

    mailbox.send(3, 1, drain);
    run_all(loop);
    CHECK(wakes == 2);
    CHECK(got.back() == 3);
}

TEST_CASE("items that are sent while items are read are read too") {
    EventLoop loop;
    Mailbox<std::unique_ptr<int>> mailbox(loop);
    int last = 0;
    std::function<void()> drain = [&] {
        while (const auto item = mailbox.next()) {
            last = **item;
            if (last < 5) mailbox.send(std::make_unique<int>(last + 1), 1, drain);
        }
    };
    mailbox.send(std::make_unique<int>(1), 1, drain);
    run_all(loop);
    CHECK(last == 5);
}

TEST_CASE("items are handed out one by one, and those that are left later") {
    EventLoop loop;
    Mailbox<int> mailbox(loop);
    for (int i = 0; i < 3; ++i) mailbox.send(i, 1, [] {});
    CHECK(mailbox.next() == 0);
    mailbox.send(3, 1, [] {});
    for (int i = 1; i < 4; ++i) CHECK(mailbox.next() == i);
    CHECK_FALSE(mailbox.next());
    CHECK_FALSE(mailbox.next());
}

TEST_CASE("whoever reads only a part at a time is woken no second time") {
    EventLoop loop;
    Mailbox<int> mailbox(loop);
    int drains = 0;
    std::function<void()> drain = [&] {
        ++drains;
        if (mailbox.next()) loop.post(drain);
    };
    for (int i = 0; i < 3; ++i) mailbox.send(i, 1, drain);
    // One item is taken, and the mailbox is empty for its senders: those don't wake it again.
    for (int i = 0; i < 3; ++i) {
        loop.run_round(0);
        mailbox.send(i, 1, drain);
    }
    run_all(loop);
    CHECK(drains == 7);  // one for each item, and one that finds nothing
}

TEST_CASE("items weigh until they are handed out") {
    EventLoop loop;
    Mailbox<int> mailbox(loop);
    CHECK(mailbox.send(1, 10, [] {}) == 10);
    CHECK(mailbox.send(2, 5, [] {}) == 15);
    CHECK(mailbox.next() == 1);
    CHECK(mailbox.weight() == 5);
    CHECK(mailbox.next() == 2);
    CHECK(mailbox.weight() == 0);
}

TEST_CASE("items of several threads are complete, and in order for each") {
    constexpr int senders = 4;
    constexpr int messages = 20'000;
    struct Numbered {
        int from;
        int number;
    };
    EventLoop loop;
    Mailbox<Numbered> mailbox(loop);
    std::vector<int> next(senders, 0);
    int total = 0;
    bool ordered = true;
    const auto drain = [&] {
        while (const auto message = mailbox.next()) {
            ordered &= message->number == next[static_cast<std::size_t>(message->from)]++;
            if (++total == senders * messages) loop.stop();
        }
    };
    std::vector<std::thread> threads;
    for (int from = 0; from < senders; ++from)
        threads.emplace_back([&, from] {
            for (int i = 0; i < messages; ++i) mailbox.send({from, i}, 1, drain);
        });
    loop.run();
    for (auto& thread : threads) thread.join();
    CHECK(ordered);
    CHECK(total == senders * messages);
}
