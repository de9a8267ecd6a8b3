#include "server/auth/passwords/passwords.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temporary_folder.h"

using namespace pulsegate;

namespace {

// Written by mosquitto_passwd 2.0.11, with -H sha512 for bob and -I 1000 for carol.
const std::string alice =
    "alice:$7$101$aFiqpLvwsrm9ABR9$PyQuAWv8nx2j+uzimWPOJRYDwk6+MMUX6tJKeaaf1Pf2hQJYGkgotSih/"
    "zYmxL2dudcl+GuxnrFVD4kZ+BiWBg==\n";
const std::string carol =
    "carol smith:$7$1000$K3WQdDQzVLMAMDtf$Ze/PArxxLUMLn2ZkLo6SfhWo+24q0Pbkwb/"
    "gdRx6oR3RXegQmXRXrtAVLX7IMAOBnTisJLiX3vc/H/CeatTPrQ==\n";
const std::string bob =
    "bob:$6$EhPm+slGZMV7t+WU$bansu2/"
    "4GHxbiz+PMKvxwAoCmTElvRrN1nehWdeKXEhs2Q6xL7xLlPR1PC0yhWeTG37n/UBRef+mHd4FaAYa7g==\n";
const std::string sixty_four_zeros = std::string(86, 'A') + "==";

mode_t mode_of(const std::string& path) {
    struct stat about {};
    ::stat(path.c_str(), &about);
    return about.st_mode & 0777;
}

using Texts = std::vector<std::string>;

std::string refusal(const std::string& lines) {
    const TemporaryFolder folder;
    const std::string path = folder.write("users", lines);
    std::string what = complaint([&] { PasswordFile::load(path); });
    return what.starts_with(path) ? what.substr(path.size()) : what;
}

/// Processor time of this thread, so that a busy machine does not matter; the least of some.
double cost(const PasswordFile& passwords, const std::string& user) {
    const auto seconds = [] {
        timespec now{};
        ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
    };
    double least = 1e9;
    for (int i = 0; i < 5; ++i) {
        const double before = seconds();
        CHECK_FALSE(passwords.check(user, "guess"));
        least = std::min(least, seconds() - before);
    }
    return least;
}

}  // namespace

TEST_CASE("passwords that mosquitto_passwd hashed are known") {
    const TemporaryFolder folder;
    const auto passwords =
        PasswordFile::load(folder.write("users", "# staff\n\n" + alice + bob + carol));
    CHECK(passwords.users() == 3);
    CHECK(passwords.check("alice", "correct horse"));
    CHECK(passwords.check("bob", "tr0ub4dor"));
    CHECK(passwords.check("carol smith", "pä:ss$ #"));

    for (const char* wrong : {"", "correct horsf", "correct hors", "correct horse "})
        CHECK_FALSE(passwords.check("alice", wrong));
    CHECK_FALSE(passwords.check("bob", "correct horse"));
    CHECK_FALSE(passwords.check("Alice", "correct horse"));
    CHECK_FALSE(passwords.check("dave", "correct horse"));
    CHECK_FALSE(passwords.check("dave", ""));
    CHECK_FALSE(passwords.check("", "correct horse"));
}

TEST_CASE("a file with line ends of Windows and without a last one is read") {
    const TemporaryFolder folder;
    std::string lines = alice + bob;
    lines.pop_back();
    lines.insert(lines.find('\n'), "\r");
    const auto passwords = PasswordFile::load(folder.write("users", lines));
    CHECK(passwords.check("alice", "correct horse"));
    CHECK(passwords.check("bob", "tr0ub4dor"));
}

TEST_CASE("a byte order mark before the first user is not a part of the name") {
    const TemporaryFolder folder;
    const auto path = folder.write("users", "\xEF\xBB\xBF" + bob + carol);
    CHECK(PasswordFile::load(path).check("bob", "tr0ub4dor"));
}

TEST_CASE("a null character in a password file is refused with its line") {
    CHECK(refusal(bob + std::string("al\0ice:", 7) + sixty_four_zeros) ==
          ":2: has a null character; save the file as UTF-8");
}

TEST_CASE("a byte order mark between two files that were joined is refused with its line") {
    CHECK(refusal(bob + std::string("\xEF\xBB\xBF") + carol) ==
          ":2: begins with a byte order mark; remove it, or write the line anew");
}

TEST_CASE("a password file may be a pipe that somebody writes to, and is not read in vain") {
    const TemporaryFolder folder;
    const auto path = folder.path("users");
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    std::thread writer([&] { std::ofstream(path) << bob << std::flush << carol; });
    CHECK(PasswordFile::load(path).users() == 2);
    writer.join();
    int read_once[2];
    REQUIRE(::pipe(read_once) == 0);
    ::close(read_once[1]);
    CHECK(complaint([&] {
              PasswordFile::load(fmt::format("/dev/fd/{}", read_once[0]));
          }).find("is a pipe that was read before") != std::string::npos);
    ::close(read_once[0]);
}

TEST_CASE("an empty file knows nobody") {
    const TemporaryFolder folder;
    CHECK_FALSE(PasswordFile::load(folder.write("users", "")).check("alice", "x"));
}

TEST_CASE("a bad line is named with its number and the remedy, and its secret is not repeated") {
    for (const char* bad : {"dave:secret",
                            "dave:",
                            "dave:$7$",
                            "dave:$7$101$c2FsdA==",
                            "dave:$7$0$c2FsdA==$",
                            "dave:$7$-1$c2FsdA==$",
                            "dave:$7$10000001$c2FsdA==$",
                            "dave:$7$99999999999999$c2FsdA==$",
                            "dave:$7$1x$c2FsdA==$",
                            "dave:$7$101$$",
                            "dave:$7$101$c2Fsd$",
                            "dave:$6$",
                            "dave:$6$c2FsdA==$secret",
                            "dave:$5$c2FsdA==$",
                            "dave:$argon2id$v=19$m=1,t=1,p=1$secret",
                            "dave:$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$",
                            "dave:$argon2id$v=19$m=262145,t=1,p=1$c29tZXNhbHQ$",
                            "dave:$argon2id$v=19$m=256,t=99999,p=1$c29tZXNhbHQ$",
                            "dave:$argon2id$v=19$m=8,t=1,p=2$c29tZXNhbHQ$",
                            "dave:$argon2id$v=19$m=256,t=0,p=1$c29tZXNhbHQ$",
                            "dave:$argon2id$v=19$m=256,t=1,p=1$secret$",
                            "dave:$argon2id$v=19$m=256,t=1,p=1$c29tZXNhbHQ=$"}) {
        for (const std::string& hash : {sixty_four_zeros, std::string()}) {
            if (std::string_view(bad) == "dave:$6$" && !hash.empty()) continue;
            const auto what = refusal(alice + "\n" + bad + hash + "\n");
            CHECK_MESSAGE(what.starts_with(":3: the password of 'dave' "), what);
            CHECK_MESSAGE(what.find("pulsegate passwd ") != std::string::npos, what);
            CHECK_MESSAGE(what.find("secret") == std::string::npos, what);
        }
    }
    CHECK(refusal("dave:$7$101$c2FsdA==$" + sixty_four_zeros).empty());
    CHECK(refusal("secret\n").find(":1: is not user:hash; remove the line") == 0);
    CHECK(refusal(":$7$101$c2FsdA==$" + sixty_four_zeros).find(":1: is not user:hash") == 0);
    CHECK(refusal(alice + alice).find(":2: the password of 'alice' is the second one") == 0);
}

TEST_CASE("a password file that is missing or a folder is named") {
    const TemporaryFolder folder;
    CHECK(complaint([&] {
              PasswordFile::load(folder.path("none"));
          }).find("none: can't be read: No such file") != std::string::npos);
    CHECK(complaint([&] { PasswordFile::load(folder.path("")); }).find("can't be read") !=
          std::string::npos);
}

TEST_CASE("a password file that others may read causes a warning") {
    const TemporaryFolder folder;
    const auto path = folder.write("users", alice);
    ::chmod(path.c_str(), 0640);
    CHECK(PasswordFile::load(path).warnings().empty());
    ::chmod(path.c_str(), 0644);
    CHECK(PasswordFile::load(path).warnings() ==
          Texts{path + ": others may read it; chmod 600 " + path});
    ::chmod(path.c_str(), 0660);
    CHECK(PasswordFile::load(path).warnings() ==
          Texts{path + ": others may change it; chmod 600 " + path});
}

TEST_CASE(
    "lines of Argon2id are read, as mosquitto 2.1 and the reference implementation write them") {
    // Of the reference implementation's own tests; the password is "password".
    const std::string ann =
        "ann:$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/"
        "4\n";
    const std::string ben =
        "ben:$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/"
        "5U52iv1cDc\n";
    const TemporaryFolder folder;
    const auto passwords = PasswordFile::load(folder.write("users", alice + ann + bob + ben));
    for (const char* user : {"ann", "ben"}) {
        CHECK(passwords.check(user, "password"));
        CHECK_FALSE(passwords.check(user, "Password"));
        CHECK_FALSE(passwords.check(user, ""));
    }
    CHECK_FALSE(passwords.check("alice", "password"));
    CHECK_FALSE(passwords.check("nobody", "password"));

    const auto path = folder.write("new", "");
    set_password(path, "carol", "secret", Argon2Cost{.memory = 64, .passes = 2, .lanes = 3});
    CHECK(folder.read("new").starts_with("carol:$argon2id$v=19$m=64,t=2,p=3$"));
    CHECK(PasswordFile::load(path).check("carol", "secret"));
    CHECK_FALSE(PasswordFile::load(path).check("carol", "Secret"));
}

TEST_CASE("a check of a cheap Argon2id hash also computes the difference to the costliest") {
    const Argon2Cost costly{.memory = 47'104, .passes = 2, .lanes = 1};
    CHECK_FALSE(difference(costly, costly));
    CHECK_FALSE(difference(costly, {.memory = 200'000, .passes = 1, .lanes = 4}));
    for (const Argon2Cost& own : {Argon2Cost{.memory = 8192, .passes = 1, .lanes = 1},
                                  Argon2Cost{.memory = 256, .passes = 3, .lanes = 2},
                                  Argon2Cost{.memory = 40'000, .passes = 2, .lanes = 1}}) {
        const auto rest = difference(costly, own);
        REQUIRE(rest);
        CHECK(rest->work() + own.work() <= costly.work());
        CHECK(rest->work() + own.work() >= costly.work() - costly.passes);
        CHECK(rest->memory <= costly.memory);
    }
    const TemporaryFolder folder;
    const auto path = folder.write("users", "");
    ::chmod(path.c_str(), 0600);
    set_password(path, "carol", "secret", Argon2Cost{.memory = 512, .passes = 2, .lanes = 1});
    set_password(path, "dave", "secret", Argon2Cost{.memory = 64, .passes = 1, .lanes = 2});
    const auto passwords = PasswordFile::load(path);
    for (const char* user : {"carol", "dave"}) {
        CHECK(passwords.check(user, "secret"));
        CHECK_FALSE(passwords.check(user, "Secret"));
    }
}

TEST_CASE("an Argon2id that takes too much is refused, and one that takes long is warned of") {
    const std::string tail = ",p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4\n";
    const std::string head = "ann:$argon2id$v=19$m=";
    CHECK(refusal(head + "262145,t=1" + tail).find("takes more than 256 MiB") != std::string::npos);
    CHECK(refusal(head + "262144,t=39" + tail).find("takes too long") != std::string::npos);
    const TemporaryFolder folder;
    const auto path = folder.write("users", head + "262144,t=4" + tail);
    ::chmod(path.c_str(), 0600);
    const auto warnings = PasswordFile::load(path).warnings();
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find("the password of 'ann' takes a second or more") != std::string::npos);
}

TEST_CASE("a password that makes all checks slow is warned of") {
    const TemporaryFolder folder;
    const auto line = [](const char* user, const char* iterations) {
        return std::string(user) + ":$7$" + iterations + "$c2FsdA==$" + sixty_four_zeros + "\n";
    };
    const auto warnings = [&](const std::string& lines) {
        const auto path = folder.write("users", lines);
        ::chmod(path.c_str(), 0600);
        return PasswordFile::load(path).warnings();
    };
    const auto alice_s = line("alice", "1000000");
    CHECK(warnings(alice_s).empty());
    const auto said = warnings(line("bob", "1000001") + line("carol", "2000000") + alice_s);
    REQUIRE(said.size() == 1);
    CHECK(said[0].find("takes a second or more") != std::string::npos);
}

TEST_CASE("a line keeps its number over readings, until it is changed or removed") {
    const TemporaryFolder folder;
    PasswordLine last = 0;
    auto first = PasswordFile::load(folder.write("users", alice + bob + carol));
    const auto before = first.number_lines(nullptr, last);
    CHECK(last == 3);
    const auto line = [](const PasswordFile& file, const char* user) { return file.line_of(user); };

    auto second = PasswordFile::load(
        folder.write("users", bob + alice + "carol smith:" + bob.substr(bob.find('$'))));
    const auto after = second.number_lines(&first, last);
    CHECK(line(second, "alice") == line(first, "alice"));
    CHECK(line(second, "bob") == line(first, "bob"));
    CHECK(line(second, "carol smith") == 4);
    CHECK(line(second, "nobody") == 0);
    CHECK(after.include(line(first, "alice")));
    CHECK_FALSE(after.include(line(first, "carol smith")));
    CHECK(before.include(line(second, "carol smith")));  // it is of a later reading

    auto third = PasswordFile::load(folder.write("users", bob));
    const auto rest = third.number_lines(&second, last);
    CHECK(rest.include(line(first, "bob")));
    CHECK_FALSE(rest.include(line(first, "alice")));
    CHECK_FALSE(rest.include(4));
}

TEST_CASE("a wrong guess costs the same for users of every hash and for nobody") {
    const TemporaryFolder folder;
    const auto path = folder.write("users", alice + bob);
    set_password(path, "dave", "long", 20'000);
    const auto passwords = PasswordFile::load(path);
    const double unknown = cost(passwords, "nobody");
    for (const char* user : {"alice", "bob", "dave"}) {
        const double known = cost(passwords, user);
        CAPTURE(user);
        // A hash that is not made at all costs a thousandth.
        CHECK(known < 50 * unknown);
        CHECK(unknown < 50 * known);
    }
}

TEST_CASE("many threads may check at the same time") {
    const TemporaryFolder folder;
    const auto passwords = PasswordFile::load(folder.write("users", alice + bob));
    std::vector<std::thread> threads;
    std::vector<int> wrong(4);
    for (int& mistakes : wrong)
        threads.emplace_back([&] {
            for (int i = 0; i < 50; ++i) {
                mistakes += !passwords.check("alice", "correct horse");
                mistakes += passwords.check("alice", "tr0ub4dor");
                mistakes += passwords.check("dave", "tr0ub4dor");
            }
        });
    for (auto& thread : threads) thread.join();
    CHECK(std::all_of(wrong.begin(), wrong.end(), [](int mistakes) { return mistakes == 0; }));
}

TEST_CASE("a password that is set is known, and the other lines stay as they are") {
    const TemporaryFolder folder;
    const std::string others = "# staff\n" + alice + "\n" + bob;
    const auto path = folder.write("users", others);
    set_password(path, "dave", "one", 10);
    CHECK(folder.read("users").starts_with(others + "dave:$7$10$"));
    set_password(path, "alice", "two", 10);
    set_password(path, "dave", "three", 10);
    const auto passwords = PasswordFile::load(path);
    CHECK(passwords.users() == 3);
    CHECK(passwords.check("alice", "two"));
    CHECK(passwords.check("dave", "three"));
    CHECK(passwords.check("bob", "tr0ub4dor"));
    CHECK_FALSE(passwords.check("alice", "correct horse"));
    CHECK(folder.read("users").starts_with("# staff\nalice:$7$10$"));

    remove_user(path, "dave");
    remove_user(path, "alice");
    CHECK(folder.read("users") == "# staff\n\n" + bob);
    CHECK(folder.files() == 1);
}

TEST_CASE("the same password is hashed with another salt each time") {
    const TemporaryFolder folder;
    const auto path = folder.path("users");
    set_password(path, "dave", "one", 10, FileMust::be_new);
    const auto first = folder.read("users");
    set_password(path, "dave", "one", 10);
    CHECK(folder.read("users") != first);
}

TEST_CASE("a line that can't be loaded is mended by setting its password") {
    const TemporaryFolder folder;
    const auto path = folder.write("users", "dave:plain\n" + bob + "dave:again");
    set_password(path, "dave", "one", 10);
    const auto passwords = PasswordFile::load(path);
    CHECK(passwords.users() == 2);
    CHECK(passwords.check("dave", "one"));
}

TEST_CASE("a new password file is its owner's alone, an old one keeps its group's right to read") {
    const TemporaryFolder folder;
    const auto path = folder.path("users");
    set_password(path, "dave", "one", 10, FileMust::be_new);
    CHECK(mode_of(path) == 0600);
    ::chmod(path.c_str(), 0640);
    set_password(path, "dave", "two", 10);
    CHECK(mode_of(path) == 0640);
    ::chmod(path.c_str(), 0666);
    set_password(path, "dave", "three", 10);
    CHECK(mode_of(path) == 0640);
    ::chmod(path.c_str(), 0604);
    remove_user(path, "dave");
    CHECK(mode_of(path) == 0600);
}

TEST_CASE("a link to a password file stays a link") {
    const TemporaryFolder folder;
    const auto path = folder.write("users", bob);
    std::filesystem::create_symlink("users", folder.path("link"));
    set_password(folder.path("link"), "dave", "one", 10);
    CHECK(std::filesystem::is_symlink(folder.path("link")));
    CHECK(PasswordFile::load(path).users() == 2);
}

TEST_CASE("a change that would break a password file is refused") {
    const TemporaryFolder folder;
    const auto path = folder.write("users", bob);
    for (const std::string& name :
         {std::string(), std::string("a:b"), std::string("#a"), std::string("a\nb"),
          std::string("\xFF"), std::string(65'536, 'a'), std::string(1, '\0')})
        CHECK(complaint([&] { set_password(path, name, "one", 10); }).find("choose another") !=
              std::string::npos);
    CHECK(complaint([&] { set_password(path, "dave", "", 10); }).find("password is empty") !=
          std::string::npos);
    CHECK(complaint([&] { set_password(path, "dave", "x", 10, FileMust::be_new); }) ==
          path + ": exists already; leave out --create");
    CHECK(complaint([&] { set_password(folder.path("none"), "dave", "x", 10); }) ==
          folder.path("none") + ": does not exist; --create makes a new file");
    CHECK(complaint([&] { remove_user(path, "dave"); }) == path + ": has no user 'dave'");
    CHECK(folder.read("users") == bob);
    CHECK(folder.files() == 1);
}

TEST_CASE("users that are added at the same time are all there in the end") {
    const TemporaryFolder folder;
    const auto path = folder.write("users", "");
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([&, i] { set_password(path, "user" + std::to_string(i), "x", 1); });
    for (auto& thread : threads) thread.join();
    CHECK(PasswordFile::load(path).users() == 8);
}
