#include "server/auth/hook_messages.h"

#include <doctest/doctest.h>

#include <boost/json/parse.hpp>
#include <random>
#include <string>
#include <vector>

using namespace pulsegate;

namespace {

constexpr std::int64_t now = 1'800'000'000;

bool fails(unsigned status, std::string_view body) {
    return std::holds_alternative<HookFailure>(read_hook_answer(status, body, now));
}
bool fails(std::string_view body) { return fails(200, body); }

/// What a clear answer says.
AuthResult result(std::string_view body, unsigned status = 200) {
    const auto answer = read_hook_answer(status, body, now);
    if (const auto* failure = std::get_if<HookFailure>(&answer)) FAIL(failure->why);
    return std::get<AuthResult>(answer);
}
bool allowed(std::string_view body) { return result(body).reason == Reason::success; }
bool denied(std::string_view body, unsigned status = 200) {
    const auto given = result(body, status);
    return given.reason == Reason::bad_user_name_or_password && !given.why.empty();
}

}  // namespace

TEST_CASE("the request to the backend describes the client, with any name") {
    const Credentials credentials{"al\"ice\\\n", "pass\tword", "phone-\xC3\xA9", "2001:db8::1"};
    const auto read = boost::json::parse(hook_question(credentials)).as_object();
    CHECK(read.size() == 4);
    CHECK(read.at("user") == "al\"ice\\\n");
    CHECK(read.at("password") == "pass\tword");
    CHECK(read.at("client") == "phone-\xC3\xA9");
    CHECK(read.at("address") == "2001:db8::1");
}

TEST_CASE("the backend's yes lets a client in, with what it says besides") {
    CHECK(allowed(R"({"allow":true})"));
    CHECK(allowed(R"( {"more": {"of": [1]}, "allow": true} )"));
    CHECK(result(R"({"allow":true})").user.empty());
    CHECK_FALSE(result(R"({"allow":true})").rules);
    CHECK_FALSE(result(R"({"allow":true})").expiry);

    const auto rich = result(
        R"({"allow":true,"user":"alice","expires":1800000060.5,"acl":["allow read room/1"]})");
    CHECK(rich.user == "alice");
    CHECK(rich.expiry == now + 60);
    REQUIRE(rich.rules);
    CHECK(rich.rules->may_subscribe({"alice", "c"}, "room/1"));
    CHECK_FALSE(rich.rules->may_subscribe({"alice", "c"}, "room/2"));
}

TEST_CASE("an empty list of rules allows nothing, and is not the same as none") {
    const auto none = result(R"({"allow":true,"acl":[]})");
    REQUIRE(none.rules);
    CHECK_FALSE(none.rules->may_publish({"alice", "c"}, "room/1"));
}

TEST_CASE("the backend's no is 0x86, in JSON or by status") {
    CHECK(denied(R"({"allow":false})"));
    CHECK(denied(R"({"allow":false,"user":7,"acl":"?"})"));
    CHECK(denied("", 401));
    CHECK(denied(R"({"allow":true})", 403));
    CHECK(denied(R"({"allow":true,"expires":1800000000})"));
    CHECK(denied(R"({"allow":true,"expires":-1})"));
}

TEST_CASE("an unclear answer is a failure, never a yes") {
    for (const unsigned status : {0u, 100u, 201u, 204u, 301u, 302u, 400u, 404u, 429u, 500u, 503u})
        CHECK(fails(status, R"({"allow":true})"));
    for (const char* body : {
             "",
             " ",
             "true",
             "null",
             "[]",
             R"([{"allow":true}])",
             R"("allow")",
             "{",
             "{}",
             R"({"allow":true)",
             R"({"allow":true}})",
             R"({"allow":true} {"allow":true})",
             R"({"allow":true,})",
             R"({'allow':true})",
             R"({"Allow":true})",
             R"({"allow":True})",
             R"({"allow":"true"})",
             R"({"allow":1})",
             R"({"allow":null})",
             R"({"allow":[true]})",
             R"({"allow":false,"allow":true})",
             R"({"allow":true,"allow":true})",
             R"({"allow":true,"user":"a","user":"b"})",
             R"({"x":{"allow":true}})",
             R"({"allow":true,"user":""})",
             R"({"allow":true,"user":null})",
             R"({"allow":true,"user":7})",
             R"({"allow":true,"user":"a\u0000b"})",
             R"({"allow":true,"user":"\ud800"})",
             "{\"allow\":true,\"user\":\"\xFF\"}",
             R"({"allow":true,"expires":"1800000060"})",
             R"({"allow":true,"expires":null})",
             R"({"allow":true,"expires":1e300})",
             R"({"allow":true,"acl":null})",
             R"({"allow":true,"acl":"allow read #"})",
             R"({"allow":true,"acl":{"allow":"#"}})",
             R"({"allow":true,"acl":[7]})",
             R"({"allow":true,"acl":["allow everything #"]})",
             R"({"allow":true,"acl":["allow read #","allow read a/#/b"]})",
         }) {
        CAPTURE(body);
        CHECK(fails(body));
    }
    CHECK(fails(R"({"allow":true,"user":")" + std::string(65'536, 'x') + R"("})"));
    CHECK(fails(R"({"allow":true})" + std::string(longest_hook_answer, ' ')));
    CHECK(fails(std::string(10'000, '[')));
}

TEST_CASE("a failure repeats nothing of the answer, because there may be secrets in it") {
    for (const char* body : {R"({"allow":"secret"})", R"({"allow":true,"user":"secret\u0000"})",
                             R"({"allow":true,"acl":["secret"]})", R"(secret)"}) {
        const auto answer = read_hook_answer(200, body, now);
        REQUIRE(std::holds_alternative<HookFailure>(answer));
        CHECK(std::get<HookFailure>(answer).why.find("secret") == std::string::npos);
    }
}

TEST_CASE("a malformed yes is a failure") {
    const std::string good = R"({"allow":true,"user":"alice","acl":["allow read room/1"]})";
    std::mt19937 random(8'259);
    for (int round = 0; round < 5'000; ++round) {
        auto cut = good.substr(0, random() % good.size());
        CHECK(fails(cut));
        auto noise = good;
        noise[random() % 13] = static_cast<char>(random());  // in {"allow":true
        if (noise == good || noise.starts_with(R"({"allow":true)")) continue;
        CAPTURE(noise);
        CHECK(fails(noise));
    }
}
