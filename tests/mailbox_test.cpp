#include "server/loop/mailbox.h"

#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

using namespace pulsegate;

namespace {

/// A mailbox, and the loop that it wakes.
template <class Item>
struct Woken {
    explicit Woken(Rounds::Task drain) : rounds(loop, std::move(drain)) {}

    /// Runs all that is posted, and what that posts.
    void run_all() { loop.poll(); }

    boost::asio::io_context loop{1};
    Rounds rounds;
    Mailbox<Item> mailbox{rounds};
};

}  // namespace

TEST_CASE("a burst of items wakes the owner once and arrives in order") {
    std::vector<int> got;
    int wakes = 0;
    Woken<int> woken([&] {
        ++wakes;
        while (const auto item = woken.mailbox.next()) got.push_back(*item);
    });
    for (int i = 0; i < 3; ++i) woken.mailbox.send(i, 1);
    CHECK(wakes == 0);  // nothing happens on the sender's side
    woken.run_all();
    CHECK(wakes == 1);
    CHECK(got == std::vector{0, 1, 2});
    CHECK_FALSE(woken.mailbox.next());

    woken.mailbox.send(3, 1);
    woken.run_all();
    CHECK(wakes == 2);
    CHECK(got.back() == 3);
}

TEST_CASE("items that are sent while items are read are read too") {
    int last = 0;
    Woken<std::unique_ptr<int>> woken([&] {
        while (const auto item = woken.mailbox.next()) {
            last = **item;
            if (last < 5) woken.mailbox.send(std::make_unique<int>(last + 1), 1);
        }
    });
    woken.mailbox.send(std::make_unique<int>(1), 1);
    woken.run_all();
    CHECK(last == 5);
}

TEST_CASE("items are handed out one by one, and those that are left later") {
    Woken<int> woken([] {});
    for (int i = 0; i < 3; ++i) woken.mailbox.send(i, 1);
    CHECK(woken.mailbox.next() == 0);
    woken.mailbox.send(3, 1);
    for (int i = 1; i < 4; ++i) CHECK(woken.mailbox.next() == i);
    CHECK_FALSE(woken.mailbox.next());
    CHECK_FALSE(woken.mailbox.next());
}

TEST_CASE("an owner that reads only a part at a time is woken no second time") {
    int drains = 0;
    Woken<int> woken([&] {
        ++drains;
        if (woken.mailbox.next()) woken.rounds.go_on();
    });
    for (int i = 0; i < 3; ++i) woken.mailbox.send(i, 1);
    // One item is taken, and the mailbox is empty for its senders: those don't wake it again.
    for (int i = 0; i < 3; ++i) {
        woken.loop.poll_one();
        woken.mailbox.send(i, 1);
    }
    woken.run_all();
    CHECK(drains == 7);  // one for each item, and one that finds nothing
}

TEST_CASE("items weigh until they are handed out") {
    Woken<int> woken([] {});
    Mailbox<int>& mailbox = woken.mailbox;
    CHECK(mailbox.send(1, 10) == 10);
    CHECK(mailbox.send(2, 5) == 15);
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
    std::vector<int> next(senders, 0);
    int total = 0;
    bool ordered = true;
    Woken<Numbered> woken([&] {
        while (const auto message = woken.mailbox.next()) {
            ordered &= message->number == next[static_cast<std::size_t>(message->from)]++;
            if (++total == senders * messages) woken.loop.stop();
        }
    });
    std::vector<std::thread> threads;
    for (int from = 0; from < senders; ++from)
        threads.emplace_back([&, from] {
            for (int i = 0; i < messages; ++i) woken.mailbox.send({from, i}, 1);
        });
    woken.loop.run();
    for (auto& thread : threads) thread.join();
    CHECK(ordered);
    CHECK(total == senders * messages);
}
