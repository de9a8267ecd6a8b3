#include "server/commands/passwd_command.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "server/auth/passwords/passwords.h"
#include "server/base/text/lines.h"
#include "server/commands/run_command.h"

namespace pulsegate {

namespace {

constexpr std::size_t longest_password = 65'535;  // the longest in a CONNECT

volatile std::sig_atomic_t caught = 0;

/// A password that is overwritten in memory when it is destroyed.
struct Password {
    Password() = default;
    ~Password() { OPENSSL_cleanse(text.data(), text.capacity()); }
    Password(const Password&) = delete;
    Password& operator=(const Password&) = delete;

    std::string text;
};

/// Turns the terminal's echo off while it exists. Signals that would end the process are deferred
/// until the echo is on again.
class HiddenInput {
public:
    HiddenInput() {
        caught = 0;
        struct sigaction note {};
        note.sa_handler = [](int signal) { caught = signal; };  // no SA_RESTART: read must return
        for (std::size_t i = 0; i < std::size(signals); ++i)
            ::sigaction(signals[i], &note, &old_[i]);
        ::tcgetattr(STDIN_FILENO, &seen_);
        termios hidden = seen_;
        hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
        ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
    }
    ~HiddenInput() {
        ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &seen_);
        std::fputc('\n', stderr);
        for (std::size_t i = 0; i < std::size(signals); ++i)
            ::sigaction(signals[i], &old_[i], nullptr);
        if (caught != 0) std::raise(caught);
    }
    HiddenInput(const HiddenInput&) = delete;
    HiddenInput& operator=(const HiddenInput&) = delete;

private:
    static constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
    struct sigaction old_[std::size(signals)];
    termios seen_{};
};

/// Reads one line of standard input without its end, byte by byte, so that the next line is left
/// for others.
void read_line(Password& line) {
    line.text.reserve(longest_password);  // reallocation would leave copies in memory
    for (char c = 0;;) {
        const auto size = ::read(STDIN_FILENO, &c, 1);
        if (size < 0 && errno == EINTR && caught == 0) continue;
        if (size < 0) throw std::runtime_error("the password can't be read");
        if (size == 0 || c == '\n') break;
        if (line.text.size() == longest_password)
            throw std::runtime_error("the password is longer than MQTT can carry; choose another");
        line.text += c;
    }
    const auto mark = line.text.size() - without_byte_order_mark(line.text).size();
    line.text.erase(0, mark);
    if (line.text.ends_with('\r')) line.text.pop_back();
}

void ask(const char* prompt, Password& answer) {
    const HiddenInput hidden;
    std::fputs(prompt, stderr);
    std::fflush(stderr);
    read_line(answer);
}

void read_password(Password& password) {
    if (::isatty(STDIN_FILENO) == 0) return read_line(password);
    ask("Password: ", password);
    Password again;
    ask("Once more: ", again);
    if (again.text != password.text)
        throw std::runtime_error("the two passwords differ; nothing was changed");
}

}  // namespace

int passwd_command(int argc, const char* const* argv) {
    std::string file;
    std::string user;
    bool create = false;
    bool remove = false;
    bool argon2 = false;
    unsigned iterations = usual_iterations;

    CLI::App app{
        "Sets a user's password in a password file, or adds the user. On a terminal, the command "
        "asks for the password; otherwise it reads a line from standard input.",
        "pulsegate passwd"};
    app.set_help_flag("-h,--help", "Print this help and exit");
    app.add_option("FILE", file, "The password file, in mosquitto_passwd's format")
        ->type_name("")
        ->required();
    app.add_option("USER", user, "The user's name")->type_name("")->required();
    auto* creates = app.add_flag("-c,--create", create, "Create a new file");
    auto* removes = app.add_flag("-D,--delete", remove, "Remove the user");
    auto* argon2s = app.add_flag("-a,--argon2", argon2,
                                 "Hash with Argon2id, as mosquitto 2.1 does: each check takes 46 "
                                 "MiB of memory, and so does each guess");
    auto* iterates = app.add_option(
        "-I,--iterations", iterations,
        "Rounds of PBKDF2: more rounds make a password slower to check, and slower to guess");
    iterates->check(CLI::Range(1u, most_iterations).description(""))
        ->type_name("N")
        ->capture_default_str();
    removes->excludes(creates)->excludes(iterates)->excludes(argon2s);
    argon2s->excludes(iterates);

    return run_command(app, argc, argv, [&] {
        if (remove) {
            remove_user(file, user);
        } else {
            const auto must = create ? FileMust::be_new : FileMust::exist;
            require_settable(file, user, must);
            Password password;
            read_password(password);
            if (argon2)
                set_password(file, user, password.text, Argon2Cost{}, must);
            else
                set_password(file, user, password.text, iterations, must);
        }
    });
}

}  // namespace pulsegate
