#include "server/auth/revocations.h"

#include <doctest/doctest.h>

#include <string>

using namespace pulsegate;

TEST_CASE("tokens that were issued before a revocation are good no more") {
    Revocations revocations;
    CHECK_FALSE(revocations.revoked("alice", issued_long_ago));
    REQUIRE(revocations.revoke("alice", 100, 0));
    CHECK(revocations.revoked("alice", 99));
    CHECK(revocations.revoked("alice", issued_long_ago));
    CHECK_FALSE(revocations.revoked("alice", 100));
    CHECK_FALSE(revocations.revoked("bob", 99));
}

TEST_CASE("a revocation never moves back") {
    Revocations revocations;
    REQUIRE(revocations.revoke("alice", 100, 0));
    REQUIRE(revocations.revoke("alice", 50, 0));
    CHECK(revocations.revoked("alice", 99));
    REQUIRE(revocations.revoke("alice", 200, 0));
    CHECK(revocations.revoked("alice", 199));
    CHECK(revocations.size() == 1);
}

TEST_CASE("an answer of the hook that is older than a revocation is good no more") {
    Revocations revocations;
    CHECK_FALSE(revocations.revoked_since("alice", 0));
    REQUIRE(revocations.revoke("alice", 100, 5000));
    CHECK(revocations.revoked_since("alice", 4999));
    CHECK_FALSE(revocations.revoked_since("alice", 5001));
    CHECK_FALSE(revocations.revoked_since("bob", 0));
    REQUIRE(revocations.revoke("alice", 50, 6000));
    CHECK(revocations.revoked_since("alice", 5001));
}

TEST_CASE("long names leave room for fewer revocations, and known users can always be revoked") {
    Revocations revocations;
    std::string name(1024 * 1024, 'a');
    std::size_t taken = 0;
    for (; taken < 100 && revocations.revoke(name, 1, 0); ++taken) ++name.back();
    CHECK(taken == 64);
    CHECK_FALSE(revocations.revoked(name, 0));
    --name.back();
    CHECK(revocations.revoke(name, 2, 0));
    CHECK(revocations.revoked(name, 1));
}
