#include "server/commands/passwd_command.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/auth/passwords/passwords.h"
#include "tests/support/temporary_folder.h"

using namespace pulsegate;

namespace {

// Written by mosquitto_passwd 2.0.11, with -H sha512; the password is tr0ub4dor.
const std::string bobs_line =
    "bob:$6$EhPm+slGZMV7t+WU$bansu2/"
    "4GHxbiz+PMKvxwAoCmTElvRrN1nehWdeKXEhs2Q6xL7xLlPR1PC0yhWeTG37n/UBRef+mHd4FaAYa7g==\n";

/// Puts another file in the place of a standard one.
class Standing {
public:
    Standing(int fd, int other) : fd_(fd), kept_(::dup(fd)) { ::dup2(other, fd); }
    ~Standing() {
        ::dup2(kept_, fd_);
        ::close(kept_);
    }
    Standing(const Standing&) = delete;
    Standing& operator=(const Standing&) = delete;

private:
    int fd_;
    int kept_;
};

struct Outcome {
    int status;
    std::string said;
};

/// `pulsegate passwd` with this on standard input, which is a file.
Outcome passwd(std::vector<std::string> words, const std::string& typed) {
    const TemporaryFolder folder;
    const int in = ::open(folder.write("in", typed).c_str(), O_RDONLY);
    const int out = ::open(folder.write("out", "").c_str(), O_WRONLY);
    words.insert(words.begin(), "passwd");
    std::vector<const char*> argv;
    for (const auto& word : words) argv.push_back(word.c_str());
    int status = 0;
    {
        const Standing input(STDIN_FILENO, in);
        const Standing errors(STDERR_FILENO, out);
        status = passwd_command(static_cast<int>(argv.size()), argv.data());
    }
    ::close(in);
    ::close(out);
    return {status, folder.read("out")};
}

/// The same, typed on a terminal: each answer after its prompt.
Outcome passwd_on_terminal(const std::string& path, const std::vector<std::string>& answers) {
    int master = -1;
    int slave = -1;
    REQUIRE(::openpty(&master, &slave, nullptr, nullptr, nullptr) == 0);
    std::string shown;
    std::thread typist([&] {
        std::size_t next = 0;
        char block[256];
        for (ssize_t size = 0; (size = ::read(master, block, sizeof block)) > 0;) {
            shown.append(block, static_cast<std::size_t>(size));
            if (!shown.ends_with(": ") || next == answers.size()) continue;
            const auto line = answers[next++] + "\n";
            if (::write(master, line.data(), line.size()) < 0) return;
        }
    });
    int status = 0;
    {
        const Standing input(STDIN_FILENO, slave);
        const Standing errors(STDERR_FILENO, slave);
        const char* argv[] = {"passwd", "--create", path.c_str(), "alice"};
        status = passwd_command(4, argv);
    }
    ::close(slave);
    typist.join();
    ::close(master);
    return {status, shown};
}

}  // namespace

TEST_CASE("the passwd command takes the password from standard input") {
    const TemporaryFolder folder;
    const auto path = folder.path("users");
    CHECK(passwd({"-c", path, "alice"}, "one\nnot this\n").status == 0);
    CHECK(passwd({path, "bob", "--iterations", "5"}, "two").status == 0);
    CHECK(passwd({path, "carol", "--argon2"}, "three").status == 0);
    CHECK(passwd({path, "carol", "--argon2", "--iterations", "5"}, "four").status == 1);
    const auto passwords = PasswordFile::load(path);
    CHECK(passwords.check("alice", "one"));
    CHECK(passwords.check("bob", "two"));
    CHECK(passwords.check("carol", "three"));
    CHECK(folder.read("users").find("alice:$7$10000$") == 0);
    CHECK(folder.read("users").find("\ncarol:$argon2id$v=19$m=47104,t=1,p=1$") !=
          std::string::npos);
    CHECK(folder.read("users").find("\nbob:$7$5$") != std::string::npos);

    CHECK(passwd({"--delete", path, "alice"}, "").status == 0);
    CHECK(PasswordFile::load(path).users() == 2);
}

TEST_CASE("the passwd command says in one line what is wrong") {
    const TemporaryFolder folder;
    const auto path = folder.write("users", bobs_line);
    const auto fails = [&](std::vector<std::string> words, const std::string& typed) {
        const auto [status, said] = passwd(std::move(words), typed);
        CHECK(status == 1);
        CHECK(said.starts_with("pulsegate passwd: "));
        CHECK(std::count(said.begin(), said.end(), '\n') == 1);
        return said;
    };
    CHECK(fails({path, "dave"}, "").find("password is empty") != std::string::npos);
    CHECK(fails({path, "dave"}, "\n").find("password is empty") != std::string::npos);
    CHECK(fails({path, "dave"}, std::string(65'536, 'x')).find("longer than MQTT") !=
          std::string::npos);
    CHECK(fails({"-c", path, "dave"}, "x").find("leave out --create") != std::string::npos);
    CHECK(fails({"-D", path, "dave"}, "").find("has no user 'dave'") != std::string::npos);
    CHECK(fails({path + "2", "dave"}, "x").find("--create") != std::string::npos);
    fails({}, "");
    fails({path}, "");
    fails({"-c", "-D", path, "bob"}, "");
    fails({"-I", "0", path, "bob"}, "x");
    fails({"--what", path, "bob"}, "x");
    CHECK(folder.read("users") == bobs_line);
}

TEST_CASE("on a terminal the passwd command asks twice and shows nothing") {
    const TemporaryFolder folder;
    const auto good = passwd_on_terminal(folder.path("users"), {"swordfish", "swordfish"});
    CHECK(good.status == 0);
    CHECK(good.said.find("Password: ") != std::string::npos);
    CHECK(good.said.find("Once more: ") != std::string::npos);
    CHECK(good.said.find("swordfish") == std::string::npos);
    CHECK(PasswordFile::load(folder.path("users")).check("alice", "swordfish"));

    const auto slip = passwd_on_terminal(folder.path("other"), {"swordfish", "swordfsih"});
    CHECK(slip.status == 1);
    CHECK(slip.said.find("differ") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(folder.path("other")));
}

TEST_CASE(
    "the passwd command finds a user behind a byte order mark, and takes none into a password") {
    const TemporaryFolder folder;
    const auto path = folder.write("users", "\xEF\xBB\xBF" + bobs_line);
    CHECK(passwd({path, "bob", "--iterations", "5"}, "\xEF\xBB\xBFnew\r\n").status == 0);
    const auto passwords = PasswordFile::load(path);
    CHECK(passwords.users() == 1);
    CHECK(passwords.check("bob", "new"));
    CHECK(folder.read("users").starts_with("bob:$7$5$"));
}
