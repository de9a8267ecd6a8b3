#include "server/base/files/line_writer.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tests/support/patience.h"

using namespace pulsegate;

namespace {

const auto ignore = [](const std::string&) {};

struct TemporaryPath {
    std::string path = "/tmp/pulsegate-line-writer-test-" + std::to_string(::getpid());
    TemporaryPath() { std::remove(path.c_str()); }
    ~TemporaryPath() { std::remove(path.c_str()); }

    std::string text() const {
        std::ostringstream out;
        out << std::ifstream(path).rdbuf();
        return out.str();
    }
};

}  // namespace

TEST_CASE("the end of a line writer writes what is left, and the next one appends") {
    const TemporaryPath file;
    {
        LineWriter log(file.path, ignore);
        log.write("one");
        log.write("two");
    }
    CHECK(file.text() == "one\ntwo\n");
    { LineWriter log(file.path, ignore); }
    LineWriter(file.path, ignore).write("three");
    CHECK(file.text() == "one\ntwo\nthree\n");
}

TEST_CASE("lines of several threads stay whole, and in order for each") {
    const TemporaryPath file;
    constexpr int writers = 4;
    constexpr int lines = 5000;
    {
        LineWriter log(file.path, ignore);
        std::vector<std::thread> threads;
        for (int writer = 0; writer < writers; ++writer)
            threads.emplace_back([&log, writer] {
                for (int i = 0; i < lines; ++i)
                    log.write(std::to_string(writer) + " " + std::to_string(i));
            });
        for (auto& thread : threads) thread.join();
    }
    std::ifstream in(file.path);
    std::vector<int> next(writers, 0);
    bool ordered = true;
    for (int writer = 0, number = 0; in >> writer >> number;)
        ordered &= number == next.at(static_cast<std::size_t>(writer))++;
    CHECK(ordered);
    CHECK(next == std::vector<int>(writers, lines));
}

TEST_CASE("a path that can't be written is an error at once") {
    CHECK_THROWS_AS(LineWriter("/no/such/folder/events", ignore), std::system_error);
    CHECK_THROWS_AS(LineWriter("/tmp", ignore), std::system_error);
}

TEST_CASE("other users of the machine can't read the file") {
    const TemporaryPath file;
    const auto before = ::umask(0);
    { LineWriter log(file.path, ignore); }
    ::umask(before);
    struct stat about {};
    REQUIRE(::stat(file.path.c_str(), &about) == 0);
    CHECK((about.st_mode & 0777) == 0640);
}

TEST_CASE("a line writer follows no symbolic link, at the start and when it opens its file again") {
    const TemporaryPath file;
    const std::string target = file.path + ".target";
    REQUIRE(::symlink(target.c_str(), file.path.c_str()) == 0);
    CHECK_THROWS_WITH(LineWriter(file.path, ignore),
                      doctest::Contains("is a symbolic link, which is not followed"));
    std::remove(file.path.c_str());
    std::string complaint;
    {
        LineWriter log(file.path, [&](const std::string& said) { complaint = said; });
        log.write("one");
        REQUIRE(std::rename(file.path.c_str(), target.c_str()) == 0);
        REQUIRE(::symlink("/no/such/file", file.path.c_str()) == 0);
        log.reopen();
    }
    CHECK(complaint.find("is a symbolic link") != std::string::npos);
    CHECK(complaint.find("still writing to the old file") != std::string::npos);
    std::remove(target.c_str());
}

TEST_CASE("a line writer goes on in a new file when the old one was moved away") {
    const TemporaryPath file;
    const std::string moved = file.path + ".1";
    {
        LineWriter log(file.path, ignore);
        log.write("old");
        REQUIRE(comes_true([&] { return file.text() == "old\n"; }));
        std::rename(file.path.c_str(), moved.c_str());
        log.reopen();
        log.write("new");
    }
    CHECK(file.text() == "new\n");
    std::remove(moved.c_str());
}

TEST_CASE("lines for a pipe wait until it has a reader, and the writers do not wait") {
    const auto before = std::signal(SIGPIPE, SIG_IGN);
    const TemporaryPath pipe;
    REQUIRE(::mkfifo(pipe.path.c_str(), 0600) == 0);
    std::vector<std::string> complaints;
    {
        LineWriter log(pipe.path, [&](const std::string& said) { complaints.push_back(said); });
        log.write("one");
        log.reopen();  // neither does this wait
        log.write("two");
        std::ifstream reader(pipe.path);
        std::string line;
        REQUIRE(std::getline(reader, line));
        CHECK(line == "one");
        REQUIRE(std::getline(reader, line));
        CHECK(line == "two");
        reader.close();
        log.write("three");  // to a pipe that somebody has read
    }
    REQUIRE(!complaints.empty());
    CHECK(complaints.back() == "nobody reads the pipe: 6 bytes lost");
    std::signal(SIGPIPE, before);
}

TEST_CASE("a pipe that nobody reads does not hold up the end of its line writer") {
    const TemporaryPath pipe;
    REQUIRE(::mkfifo(pipe.path.c_str(), 0600) == 0);
    std::string complaint;
    const int reader = ::open(pipe.path.c_str(), O_RDONLY | O_NONBLOCK);
    {
        LineWriter log(pipe.path, [&](const std::string& said) { complaint = said; });
        log.write(std::string(1'000'000, 'x'));
    }
    CHECK(complaint.find("its reader takes nothing: ") == 0);
    ::close(reader);

    int blocked[2];
    REQUIRE(::pipe(blocked) == 0);
    {
        LineWriter log(blocked[1], [&](const std::string& said) { complaint = said; });
        log.write(std::string(1'000'000, 'x'));
    }
    CHECK(complaint.find("its reader takes nothing: ") == 0);
    ::close(blocked[0]);
    ::close(blocked[1]);
}
