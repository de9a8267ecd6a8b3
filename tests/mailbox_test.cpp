#include "server/mailbox.h"

#include <doctest/doctest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

using namespace pulsegate;

TEST_CASE("a burst of mail wakes the owner once and arrives in order") {
    boost::asio::io_context io;
    Mailbox<int> mailbox(io);
    std::vector<int> got;
    int wakes = 0;
    const auto drain = [&] {
        ++wakes;
        for (const int mail : mailbox.take()) got.push_back(mail);
    };
    for (int i = 0; i < 3; ++i) mailbox.send(i, 1, drain);
    CHECK(wakes == 0);  // nothing happens on the sender's side
    io.run();
    CHECK(wakes == 1);
    CHECK(got == std::vector{0, 1, 2});
    CHECK(mailbox.take().empty());

    io.restart();
    mailbox.send(3, 1, drain);
    io.run();
    CHECK(wakes == 2);
    CHECK(got.back() == 3);
}

TEST_CASE("mail that is sent while mail is read is read too") {
    boost::asio::io_context io;
    Mailbox<std::unique_ptr<int>> mailbox(io);
    int last = 0;
    std::function<void()> drain = [&] {
        for (const auto& mail : mailbox.take()) {
            last = *mail;
            if (last < 5) mailbox.send(std::make_unique<int>(last + 1), 1, drain);
        }
    };
    mailbox.send(std::make_unique<int>(1), 1, drain);
    io.run();
    CHECK(last == 5);
}

TEST_CASE("mail of several threads is complete, and in order for each") {
    constexpr int senders = 4;
    constexpr int letters = 20'000;
    struct Letter {
        int from;
        int number;
    };
    boost::asio::io_context io;
    auto open = boost::asio::make_work_guard(io);
    Mailbox<Letter> mailbox(io);
    std::vector<int> next(senders, 0);
    int total = 0;
    bool ordered = true;
    const auto drain = [&] {
        for (const Letter& letter : mailbox.take()) {
            ordered &= letter.number == next[static_cast<std::size_t>(letter.from)]++;
            if (++total == senders * letters) open.reset();
        }
    };
    std::vector<std::thread> threads;
    for (int from = 0; from < senders; ++from)
        threads.emplace_back([&, from] {
            for (int i = 0; i < letters; ++i) mailbox.send({from, i}, 1, drain);
        });
    io.run();
    for (auto& thread : threads) thread.join();
    CHECK(ordered);
    CHECK(total == senders * letters);
}
