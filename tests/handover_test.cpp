#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/handover/channel.h"
#include "server/handover/successor.h"
#include "server/handover/terms.h"
#include "server/store/files/folder_lock.h"
#include "tests/support/patience.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

using namespace pulsegate;
using namespace std::chrono_literals;

namespace {

HandoverChannel::Deadline later() { return std::chrono::steady_clock::now() + 60s; }

/// Both processes of an upgrade.
struct Ends {
    Ends() : Ends(HandoverChannel::make_pair()) {}
    explicit Ends(std::pair<HandoverChannel, UniqueFd> made)
        : old_process(std::move(made.first)), new_process(std::move(made.second)) {}

    HandoverChannel old_process;
    HandoverChannel new_process;
};

std::string state_of(pid_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string number, name, state;
    file >> number >> name >> state;
    return state;
}

}  // namespace

TEST_CASE("a descriptor passes between the processes of an upgrade with its message") {
    Ends ends;
    std::array<int, 2> pipe{};
    REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
    const UniqueFd reader(pipe[0]);
    const UniqueFd writer(pipe[1]);
    ends.old_process.send(HandoverStep::client, "state", later(), writer.get());
    ends.old_process.send(HandoverStep::clients, "", later());

    const auto client = ends.new_process.expect(HandoverStep::client, later());
    CHECK(client.body == "state");
    REQUIRE(client.descriptor);
    CHECK(::fcntl(client.descriptor.get(), F_GETFD) == FD_CLOEXEC);
    REQUIRE(::write(client.descriptor.get(), "x", 1) == 1);
    char read = 0;
    CHECK(::read(reader.get(), &read, 1) == 1);
    CHECK(read == 'x');
    CHECK_FALSE(ends.new_process.expect(HandoverStep::clients, later()).descriptor);
}

TEST_CASE("a message of an upgrade may be larger than the socket's buffer") {
    Ends ends;
    const std::string state(8 * 1024 * 1024, 's');
    std::jthread sender([&] {
        for (int i = 0; i < 3; ++i) ends.old_process.send(HandoverStep::client, state, later());
    });
    for (int i = 0; i < 3; ++i)
        CHECK(ends.new_process.expect(HandoverStep::client, later()).body == state);
    sender.join();
}

TEST_CASE("each message of an upgrade comes whole, and with its own descriptor") {
    std::mt19937 dice(1);
    const auto up_to = [&](std::size_t most) {
        return std::uniform_int_distribution<std::size_t>(0, most)(dice);
    };
    std::vector<std::string> bodies;
    for (int i = 0; i < 1000; ++i) {
        const auto kind = up_to(9);
        const std::size_t most = kind == 0 ? 200'000 : kind < 5 ? 40 : 2'000;
        bodies.emplace_back(up_to(most), static_cast<char>('a' + i % 26));
    }
    const auto has_descriptor = [](std::size_t number) { return number % 3 != 0; };
    Ends ends;
    std::jthread sender([&] {
        for (std::size_t i = 0; i < bodies.size(); ++i) {
            const UniqueFd file(::memfd_create("message", MFD_CLOEXEC));
            CHECK(::ftruncate(file.get(), static_cast<off_t>(i)) == 0);
            ends.old_process.send(HandoverStep::client, bodies[i], later(),
                                  has_descriptor(i) ? file.get() : -1);
        }
    });
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < bodies.size(); ++i) {
        const auto message = ends.new_process.receive(later());
        wrong += message.body != bodies[i];
        wrong += static_cast<bool>(message.descriptor) != has_descriptor(i);
        if (message.descriptor)
            wrong += ::lseek(message.descriptor.get(), 0, SEEK_END) != static_cast<off_t>(i);
    }
    sender.join();
    CHECK(wrong == 0);
}

TEST_CASE("a message of an upgrade may begin in one read and end in the next") {
    for (std::size_t read = 1; read < 16; ++read) {  // so many bytes of its header
        Ends ends;
        const std::string first(65'536 - 16 - read, 'f');
        const UniqueFd file(::memfd_create("message", MFD_CLOEXEC));
        ends.old_process.send(HandoverStep::history, first, later());
        ends.old_process.send(HandoverStep::client, "second", later(), file.get());
        ends.old_process.send(HandoverStep::clients, "third", later());
        CHECK(ends.new_process.expect(HandoverStep::history, later()).body == first);
        const auto second = ends.new_process.expect(HandoverStep::client, later());
        CHECK(second.body == "second");
        CHECK(second.descriptor);
        const auto third = ends.new_process.expect(HandoverStep::clients, later());
        CHECK(third.body == "third");
        CHECK_FALSE(third.descriptor);
    }
}

TEST_CASE("an upgrade ends if the other process ends, says no, says something else, or nothing") {
    Ends ends;
    CHECK_THROWS_AS(ends.old_process.receive(std::chrono::steady_clock::now()), HandoverError);
    ends.new_process.send(HandoverStep::refused, "shards: 0 is too few", later());
    CHECK_THROWS_WITH(ends.old_process.expect(HandoverStep::hello, later()),
                      "shards: 0 is too few");
    ends.new_process.send(HandoverStep::serving, "", later());
    CHECK_THROWS_AS(ends.old_process.expect(HandoverStep::ready, later()), HandoverError);
    ends.new_process = HandoverChannel(UniqueFd());
    CHECK_THROWS_AS(ends.old_process.receive(later()), OtherEnded);
    CHECK_THROWS_AS(ends.old_process.send(HandoverStep::go, "", later()), OtherEnded);
}

TEST_CASE("the reason of a process that has ended can still be read when nothing can be sent") {
    Ends ends;
    ends.old_process.send(HandoverStep::lock, "unread", later());
    ends.new_process.send(HandoverStep::refused, "data: another folder", later());
    ends.new_process = HandoverChannel(UniqueFd());
    CHECK_THROWS_AS(ends.old_process.send(HandoverStep::listeners, "", later()), OtherEnded);
    const auto now = std::chrono::steady_clock::now();
    CHECK_THROWS_WITH(ends.old_process.expect(HandoverStep::refused, now), "data: another folder");
    CHECK_THROWS_AS(ends.old_process.expect(HandoverStep::refused, now), OtherEnded);
}

TEST_CASE("a program takes over only if it reads the state and the store of the old one") {
    const UpgradeHello own = own_hello({});
    CHECK(objection(decode_hello(encode(own)), own) == "");
    UpgradeHello other = own;
    other.state += 1;
    CHECK(objection(other, own) == "");  // it reads the older state, too
    other.oldest_state = own.state + 1;
    CHECK(objection(other, own).find("can't read the state") != std::string::npos);
    other = own;
    other.store += 1;
    CHECK(objection(other, own).find("of the store") != std::string::npos);
    CHECK(decode_hello(encode(own)).gateway > 0);
    CHECK(decode_hello(R"({"version":"0.1"})").gateway == 0);  // it reads clients only
    CHECK(objection(decode_hello(R"({"version":"9","what":[]})"), own) != "");
    CHECK_THROWS_AS(decode_hello("[]"), HandoverError);
}

TEST_CASE("a program takes over only if its settings allow what connected clients may rely on") {
    const UpgradeHello own = own_hello({{"max-qos", 2}, {"retain-available", 1}});
    CHECK(objection(decode_hello(encode(own)), own) == "");
    UpgradeHello other = own;
    other.promises = {{"max-qos", 2}, {"other", 0}, {"retain-available", 2}};
    CHECK(objection(decode_hello(encode(other)), own) == "");
    other.promises["retain-available"] = 0;
    CHECK(objection(decode_hello(encode(other)), own).starts_with("retain-available: "));
    other.promises["retain-available"] = 1;
    UpgradeHello unchecked = own;
    unchecked.promises[promise_of_no_login] = 1;
    other.promises[promise_of_no_login] = 0;
    CHECK(objection(other, own) == "");
    CHECK(objection(other, unchecked).find("check them") != std::string::npos);
    other.promises.clear();  // an older one does not say it
    CHECK(objection(decode_hello(encode(other)), own) == "");
}

TEST_CASE("a process that nobody has reaped has ended when none of its threads runs") {
    CHECK_FALSE(has_ended(::getpid()));
    std::array<int, 2> pipe{};
    REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
    const UniqueFd reader(pipe[0]);
    UniqueFd writer(pipe[1]);
    const pid_t child = ::fork();
    if (child == 0) {
        writer = UniqueFd();
        char none = 0;
        while (::read(reader.get(), &none, 1) < 0) continue;
        ::_exit(0);
    }
    REQUIRE(child > 0);
    CHECK_FALSE(has_ended(child));
    writer = UniqueFd();
    siginfo_t info{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
    CHECK(has_ended(child));
    CHECK(::waitpid(child, nullptr, 0) == child);
    CHECK(has_ended(child));
}

TEST_CASE("a process has not ended while one of its threads runs") {
    CHECK_FALSE(has_ended(::getpid()));
    if (sanitized) return;  // a sanitizer allows no threads in a forked process
    std::array<int, 2> pipe{};
    REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
    const UniqueFd reader(pipe[0]);
    UniqueFd writer(pipe[1]);
    const pid_t child = ::fork();
    if (child == 0) {
        writer = UniqueFd();
        std::thread([from = reader.get()] {
            char none = 0;
            while (::read(from, &none, 1) < 0) continue;
            ::_exit(0);
        }).detach();
        ::syscall(SYS_exit, 0);  // only the first thread
    }
    REQUIRE(child > 0);
    REQUIRE(comes_true([&] { return state_of(child) == "Z"; }));
    CHECK_FALSE(has_ended(child));
    writer = UniqueFd();
    siginfo_t info{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
    CHECK(has_ended(child));
    CHECK(::waitpid(child, nullptr, 0) == child);
}

TEST_CASE("messages between the processes of an upgrade arrive unchanged") {
    const Ready ready = decode_ready(encode(
        Ready{.adopted = 7, .refused = 2, .refused_clients = {0, 8}, .divides_rooms = true}));
    CHECK(ready.adopted == 7);
    CHECK(ready.refused == 2);
    CHECK(ready.refused_clients == std::vector<std::uint64_t>{0, 8});
    CHECK(decode_ready(R"({"refused":1})").refused_clients.empty());  // an older version
    CHECK(decode_ready(R"({"refused_clients":[-1,"0",3]})").refused_clients ==
          std::vector<std::uint64_t>{3});
    CHECK(ready.divides_rooms);
    Go go{.since = std::chrono::steady_clock::now()};
    go.outcome.moved = 15'000;
    go.outcome.left["TLS 1.2"] = 3;
    const Go heard = decode_go(encode(go));
    CHECK(heard.since == go.since);
    CHECK(heard.outcome.end == UpgradeOutcome::End::completed);
    CHECK(heard.outcome.moved == 15'000);
    CHECK(heard.outcome.left == go.outcome.left);
}

TEST_CASE("a folder stays locked as long as one of two processes has its lock") {
    const TemporaryFolder folder;
    const std::string path = folder.path("data");
    UniqueFd passed;
    {
        const FolderLock lock(path);
        passed = lock.share();
    }
    CHECK_THROWS_WITH_AS(FolderLock{path}, doctest::Contains("uses it"), std::runtime_error);
    const FolderLock other(folder.path("other"));
    CHECK_THROWS_WITH_AS(FolderLock(path, other.share()), doctest::Contains("in another folder"),
                         std::runtime_error);
    {
        const FolderLock taken_over(path, std::move(passed));
        CHECK_THROWS_AS(FolderLock{path}, std::runtime_error);
    }
    CHECK_NOTHROW(FolderLock{path});
}

TEST_CASE("an upgrade needs as much memory as the process has, and 64 MiB of the disk") {
    constexpr std::size_t mebibyte = 1024 * 1024;
    CHECK(objection(UpgradeRoom{.own_memory = 100, .unused_memory = 100}).empty());
    CHECK(objection(UpgradeRoom{.disk = 64 * mebibyte}).empty());
    CHECK(objection(UpgradeRoom{.disk = 63 * mebibyte}) ==
          "the disk of the data folder has 63 MiB left; an upgrade needs 64 MiB");
    CHECK(objection(UpgradeRoom{.own_memory = 600 * mebibyte, .unused_memory = 599 * mebibyte}) ==
          "for a moment the new process needs 600 MiB of memory too, and 599 MiB are left; stop "
          "and start instead");
}
