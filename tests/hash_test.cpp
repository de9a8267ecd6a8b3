#include "server/base/hash.h"

#include <doctest/doctest.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/session/terms/homes.h"

using namespace pulsegate;

namespace {

/// SipHash-1-3 as OpenSSL computes it.
class Reference {
public:
    Reference() {
        REQUIRE(context_);
        unsigned size = sizeof(std::uint64_t);
        unsigned rounds_a_word = 1;
        unsigned rounds_at_the_end = 3;
        const OSSL_PARAM parameters[] = {
            OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_SIZE, &size),
            OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_C_ROUNDS, &rounds_a_word),
            OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_D_ROUNDS, &rounds_at_the_end),
            OSSL_PARAM_construct_end(),
        };
        REQUIRE(EVP_MAC_CTX_set_params(context_.get(), parameters) == 1);
    }

    std::uint64_t operator()(const HashKey& key, std::string_view text) const {
        std::uint64_t hash = 0;
        std::size_t size = 0;
        REQUIRE(EVP_MAC_init(context_.get(), reinterpret_cast<const unsigned char*>(&key),
                             sizeof key, nullptr) == 1);
        REQUIRE(EVP_MAC_update(context_.get(), reinterpret_cast<const unsigned char*>(text.data()),
                               text.size()) == 1);
        REQUIRE(EVP_MAC_final(context_.get(), reinterpret_cast<unsigned char*>(&hash), &size,
                              sizeof hash) == 1);
        REQUIRE(size == sizeof hash);
        return hash;
    }

private:
    std::unique_ptr<EVP_MAC, decltype(&EVP_MAC_free)> siphash_{
        EVP_MAC_fetch(nullptr, "SIPHASH", nullptr), EVP_MAC_free};
    std::unique_ptr<EVP_MAC_CTX, decltype(&EVP_MAC_CTX_free)> context_{
        EVP_MAC_CTX_new(siphash_.get()), EVP_MAC_CTX_free};
};

constexpr HashKey published_key{0x07060504'03020100, 0x0F0E0D0C'0B0A0908};

/// 00 01 02 ...
std::string counting(std::size_t size) {
    std::string bytes;
    for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(i);
    return bytes;
}

std::string random_bytes(std::mt19937_64& random, std::size_t size) {
    std::string bytes;
    while (bytes.size() < size) bytes += static_cast<char>(random());
    return bytes;
}

}  // namespace

TEST_CASE("SipHash-1-3 has its published values") {
    const auto hash = [](std::size_t size) { return siphash13(published_key, counting(size)); };
    CHECK(hash(0) == 0xABAC0158'050FC4DC);
    CHECK(hash(1) == 0xC9F49BF3'7D57CA93);
    CHECK(hash(2) == 0x82CB9B02'4DC7D44D);
    CHECK(hash(3) == 0x8BF80AB8'E7DDF7FB);
    CHECK(hash(7) == 0xD3927D98'9BB11140);
    CHECK(hash(8) == 0x36909511'8D299A8E);
    CHECK(hash(15) == 0xD320D86D'2A519956);
    CHECK(hash(16) == 0xCC4FDD1A'7D908B66);
    CHECK(hash(63) == 0x9D199062'B7BBB3A8);
}

TEST_CASE("SipHash-1-3 is what OpenSSL computes, for every length and any key") {
    const Reference reference;
    std::mt19937_64 random(13);
    for (std::size_t size = 0; size < 300; ++size) {
        const HashKey key{random(), random()};
        const auto text = random_bytes(random, size);
        CAPTURE(size);
        CHECK(siphash13(key, text) == reference(key, text));
    }
}

TEST_CASE("a number and a text are hashed as the number's bytes before the text's") {
    for (const std::string text : {"", "a", "room/1", "presence/somebody"}) {
        const std::string seven("\7\0\0\0\0\0\0", 8);
        CHECK(keyed_hash(7, text) == keyed_hash(seven + text));
        CHECK(keyed_hash(7, text) != keyed_hash(8, text));
    }
    CHECK(keyed_hash(7) == keyed_hash(7, ""));
}

TEST_CASE("the hash of two texts depends on where the first one ends") {
    CHECK(keyed_hash("a", "bc") == keyed_hash("a", "bc"));
    CHECK(keyed_hash("a", "bc") != keyed_hash("ab", "c"));
    CHECK(keyed_hash("", "abc") != keyed_hash("abc", ""));
    CHECK(keyed_hash("a", "b") != keyed_hash("b", "a"));
}

TEST_CASE("names that go to one place under one key are spread by another") {
    // A few bits choose the place in a table: for a known key, names for one place are soon found.
    constexpr std::uint64_t places = 1024;
    const HashKey guessed{1, 2};
    const HashKey real{3, 4};
    std::set<std::uint64_t> seen;
    std::size_t found = 0;
    for (int i = 0; found < 300; ++i) {
        const auto name = "room/" + std::to_string(i);
        if (siphash13(guessed, name) % places != 0) continue;
        ++found;
        seen.insert(siphash13(real, name) % places);
    }
    CHECK(seen.size() > 200);
}

TEST_CASE("the stable hash never changes") {
    CHECK(stable_hash("") == 0xABAC0158'050FC4DC);
    CHECK(stable_hash("alice") == 0xCBFB4A03'5000F64A);
    CHECK(stable_hash("a/b") == 0x3DC6C0F5'D32F0250);
    CHECK(stable_hash("$share/g/t") == 0x2FAA1CF4'2A21957F);
    CHECK(stable_hash("inbox/bob") == 0x9F4DF055'CB7B798F);
}

TEST_CASE("nobody's home changes") {
    for (const char* name : {"", "alice", "$share/g/t"}) CHECK(Homes(1).shard_of(name) == 0);
    CHECK(Homes(2).shard_of("alice") == 0);
    CHECK(Homes(2).shard_of("$share/g/t") == 1);
    CHECK(Homes(7).shard_of("alice") == 0xCBFB4A03'5000F64A % 7);
    CHECK(Homes(64).shard_of("a/b") == 0x10);
}

TEST_CASE("homes are spread evenly") {
    for (const unsigned shards : {2u, 3u, 8u, 16u}) {
        std::vector<int> users(shards);
        for (int i = 0; i < 16'000; ++i)
            ++users[Homes(shards).shard_of("user" + std::to_string(i))];
        for (const int count : users) {
            CHECK(count > 16'000 / static_cast<int>(shards) * 8 / 10);
            CHECK(count < 16'000 / static_cast<int>(shards) * 12 / 10);
        }
    }
}
