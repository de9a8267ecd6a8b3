#include "server/login/authenticator.h"

#include <doctest/doctest.h>

#include <boost/asio/ip/address.hpp>
#include <future>
#include <string>
#include <utility>

#include "tests/support/temporary_folder.h"

using namespace pulsegate;

namespace {

const Address client_address(boost::asio::ip::make_address("192.0.2.1"));

struct Answered {
    AuthResult result;
    bool waited;  ///< for a turn to be checked
};

/// A login with a client that waits for the answer.
Answered login(Authenticator& authenticator, const Credentials& credentials) {
    std::promise<CheckPool::Ticket> turn;
    std::promise<AuthResult> answer;
    auto begins = turn.get_future();
    auto ends = answer.get_future();
    authenticator.authenticate(
        credentials, client_address, [&](CheckPool::Ticket ticket) { turn.set_value(ticket); },
        [&](AuthResult result) { answer.set_value(std::move(result)); });
    const bool answered = ends.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    if (!answered) authenticator.begin(begins.get(), credentials);
    return {ends.get(), !answered};
}

Credentials shows(const std::string& user, const std::string& password) {
    return {.user = user, .password = password, .client = "phone", .address = "192.0.2.1"};
}

struct WithPasswords {
    AuthenticatorSettings settings() const {
        AuthenticatorSettings settings;
        settings.password_file = path;
        return settings;
    }

    void set(const std::string& user, const std::string& password) {
        const auto must = first ? FileMust::be_new : FileMust::exist;
        set_password(path, user, password, 100, must);
        first = false;
    }

    const TemporaryFolder folder{};
    const std::string path = folder.path("users");
    bool first = true;
};

}  // namespace

TEST_CASE("a right password is hashed once, and is known then") {
    WithPasswords users;
    users.set("alice", "secret");
    users.set("bob", "secret");
    Authenticator authenticator(users.settings());
    const auto first = login(authenticator, shows("alice", "secret"));
    CHECK(first.result.reason == Reason::success);
    CHECK(first.waited);
    for (int i = 0; i < 3; ++i) {
        const auto again = login(authenticator, shows("alice", "secret"));
        CHECK(again.result.reason == Reason::success);
        CHECK_FALSE(again.waited);
    }
    CHECK(login(authenticator, shows("bob", "secret")).waited);
    CHECK(login(authenticator, shows("alice", "secretsecret")).waited);
}

TEST_CASE("a wrong password is hashed each time, and never known") {
    WithPasswords users;
    users.set("alice", "secret");
    Authenticator authenticator(users.settings());
    CHECK(login(authenticator, shows("alice", "secret")).result.reason == Reason::success);
    for (int i = 0; i < 3; ++i) {
        const auto guess = login(authenticator, shows("alice", "guess"));
        CHECK(guess.waited);
        CHECK(guess.result.guessed);
        CHECK(guess.result.reason == Reason::bad_user_name_or_password);
        CHECK(login(authenticator, shows("mallory", "secret")).result.guessed);
    }
}

TEST_CASE("a reload forgets the passwords that were right") {
    WithPasswords users;
    users.set("alice", "old");
    users.set("bob", "same");
    Authenticator authenticator(users.settings());
    login(authenticator, shows("alice", "old"));
    login(authenticator, shows("bob", "same"));
    users.set("alice", "new");
    CHECK(login(authenticator, shows("alice", "old")).result.reason == Reason::success);
    authenticator.reload();
    CHECK(login(authenticator, shows("alice", "old")).result.guessed);
    CHECK(login(authenticator, shows("alice", "new")).result.reason == Reason::success);
    CHECK(login(authenticator, shows("bob", "same")).waited);
}

TEST_CASE("the number of a password line tells whether a reload has changed the line") {
    WithPasswords users;
    users.set("alice", "old");
    users.set("bob", "same");
    Authenticator authenticator(users.settings());
    const auto alice = login(authenticator, shows("alice", "old")).result.password_line;
    const auto bob = login(authenticator, shows("bob", "same")).result.password_line;
    CHECK(alice != 0);
    CHECK(login(authenticator, shows("alice", "old")).result.password_line == alice);
    users.set("alice", "new");
    authenticator.reload();
    CHECK_FALSE(authenticator.password_lines()->include(alice));
    CHECK(authenticator.password_lines()->include(bob));
    const auto changed = login(authenticator, shows("alice", "new")).result.password_line;
    CHECK(authenticator.password_lines()->include(changed));
}

TEST_CASE(
    "if certificates name users, a client without one is asked for a password, anonymous or "
    "refused") {
    AuthenticatorSettings settings;
    settings.user_by_certificate = true;
    Authenticator strict(settings);
    CHECK(strict.required());
    CHECK(login(strict, shows("alice", "secret")).result.reason == Reason::not_authorized);
    CHECK(login(strict, shows("", "")).result.reason == Reason::not_authorized);

    settings.allow_anonymous = true;
    Authenticator open(settings);
    CHECK(login(open, shows("alice", "")).result.reason == Reason::not_authorized);
    CHECK(login(open, shows("", "")).result.user == "anonymous/phone");

    WithPasswords users;
    users.set("alice", "secret");
    settings.password_file = users.path;
    Authenticator asking(settings);
    CHECK(login(asking, shows("alice", "secret")).result.reason == Reason::success);
    CHECK(login(asking, shows("alice", "guess")).result.guessed);
}

TEST_CASE("an anonymous client without a client id is given one, which is in its user's name") {
    AuthenticatorSettings settings;
    settings.user_by_certificate = true;
    settings.allow_anonymous = true;
    Authenticator authenticator(settings);
    const auto first = login(authenticator, {"", "", "", "192.0.2.1"}).result;
    const auto second = login(authenticator, {"", "", "", "192.0.2.1"}).result;
    CHECK(first.client.starts_with("auto-"));
    CHECK(first.user == "anonymous/" + first.client);
    CHECK(first.user != second.user);
}
