#include "server/auth/auth_cache.h"

#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <string>

using namespace pulsegate;

namespace {

constexpr std::int64_t unix_time = 1'800'000'000;
const AuthResult denial{.reason = Reason::bad_user_name_or_password, .why = "no"};

AuthCache::Key number(unsigned value) {
    AuthCache::Key key{};
    std::memcpy(key.data(), &value, sizeof value);
    return key;
}

}  // namespace

TEST_CASE("a result is remembered for its lifetime, both a no and a yes") {
    AuthCache cache(10'000);
    CHECK_FALSE(cache.find(number(1), 0));
    cache.put(number(1), {.user = "alice"}, 1'000, unix_time);
    cache.put(number(2), denial, 1'000, unix_time);
    REQUIRE(cache.find(number(1), 10'999));
    CHECK(cache.find(number(1), 10'999)->user == "alice");
    CHECK(cache.find(number(2), 10'999)->reason == Reason::bad_user_name_or_password);
    CHECK_FALSE(cache.find(number(1), 11'000));
    CHECK_FALSE(cache.find(number(2), 11'000));
    CHECK(cache.size() == 0);
}

TEST_CASE("a newer result takes the older one's place") {
    AuthCache cache(10'000);
    cache.put(number(1), {.user = "alice"}, 0, unix_time);
    cache.put(number(1), denial, 9'000, unix_time);
    CHECK(cache.size() == 1);
    REQUIRE(cache.find(number(1), 18'999));
    CHECK(cache.find(number(1), 18'999)->reason == Reason::bad_user_name_or_password);
}

TEST_CASE("a result is forgotten when it expires, even if its neighbours are older or younger") {
    AuthCache cache(10'000);
    cache.put(number(1), {}, 0, unix_time);
    cache.put(number(2), {.expiry = unix_time + 3}, 0, unix_time);
    cache.put(number(3), {.expiry = unix_time + 1'000'000'000}, 0, unix_time);
    cache.put(number(4), {.expiry = unix_time}, 0, unix_time);
    CHECK(cache.find(number(2), 2'999));
    CHECK_FALSE(cache.find(number(2), 3'000));
    CHECK(cache.find(number(1), 9'999));
    CHECK(cache.find(number(3), 9'999));
    CHECK_FALSE(cache.find(number(3), 10'000));
    CHECK_FALSE(cache.find(number(4), 0));
}

TEST_CASE("without a lifetime nothing is remembered, and a cleared cache is empty") {
    AuthCache off(0);
    off.put(number(1), {}, 0, unix_time);
    CHECK(off.size() == 0);
    CHECK_FALSE(off.find(number(1), 0));

    AuthCache cache(10'000);
    cache.put(number(1), {}, 0, unix_time);
    cache.clear();
    CHECK(cache.size() == 0);
    CHECK_FALSE(cache.find(number(1), 0));
}

TEST_CASE("a cache that is full forgets the oldest") {
    AuthCache cache(10'000, {.results = 100});
    for (unsigned i = 0; i < 1'000; ++i) cache.put(number(i), {}, i, unix_time);
    CHECK(cache.size() == 100);
    CHECK_FALSE(cache.find(number(899), 1'000));
    CHECK(cache.find(number(900), 1'000));
    CHECK(cache.find(number(999), 1'000));
}

TEST_CASE("a cache forgets the oldest when its results take too many bytes") {
    constexpr std::size_t large = 10'000;
    AuthCache cache(10'000, {.results = 100, .bytes = 3 * large});
    const auto put = [&](unsigned key, std::size_t bytes) {
        cache.put(number(key), {.user = std::string(bytes, 'u')}, 0, unix_time);
    };
    put(1, large);
    put(2, large);
    put(3, large);
    CHECK(cache.size() == 2);
    CHECK_FALSE(cache.find(number(1), 0));
    put(2, 10);  // takes the place of its older one
    put(4, large);
    CHECK(cache.size() == 3);
    put(5, 3 * large);  // too large for any room
    CHECK(cache.size() == 3);
    auto rules = std::make_shared<AccessRules>();
    for (int i = 0; i < 100; ++i)
        REQUIRE(rules->add("allow read room/" + std::to_string(i) + std::string(50, 'x')).empty());
    cache.put(number(6), {.rules = rules}, 0, unix_time);
    CHECK_FALSE(cache.find(number(3), 0));
    CHECK(cache.find(number(6), 0));
    cache.clear();
    put(7, large);
    put(8, large);
    CHECK(cache.size() == 2);
}

TEST_CASE("a key stands for user, client and password, wherever they come from") {
    const AuthCache cache(10'000);
    const Credentials credentials{"user", "password", "client", "192.0.2.1"};
    CHECK(cache.key_of(credentials) == cache.key_of({"user", "password", "client", "192.0.2.2"}));
    const std::set<AuthCache::Key> keys{
        cache.key_of(credentials),
        cache.key_of({"user", "Password", "client", ""}),
        cache.key_of({"user", "password", "other", ""}),
        cache.key_of({"other", "password", "client", ""}),
        cache.key_of({"client", "password", "user", ""}),
        cache.key_of({"userc", "password", "lient", ""}),
        cache.key_of({"user", "tpassword", "clien", ""}),
        cache.key_of({"", "", "", ""}),
        cache.key_of({"0:", "", "", ""}),
        cache.key_of({"", "0:", "", ""}),
        AuthCache(10'000).key_of(credentials),  // another process has another secret
    };
    CHECK(keys.size() == 11);
}
