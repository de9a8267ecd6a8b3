// The keys that an identity provider publishes, also by one that means no good.
#include "server/auth/jwk_set.h"

#include <doctest/doctest.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/pem.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <variant>

#include "server/auth/jwt.h"
#include "tests/support/tokens.h"

using namespace pulsegate;

namespace {

std::shared_ptr<EVP_PKEY> public_key_of(const Signer& signer) {
    const std::string text = signer.public_pem();
    const std::unique_ptr<BIO, decltype(&BIO_free)> in(
        BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free);
    return {PEM_read_bio_PUBKEY(in.get(), nullptr, nullptr, nullptr), EVP_PKEY_free};
}

/// A number of the key, in base64url.
std::string number_of(const Signer& signer, const char* name) {
    const auto key = public_key_of(signer);
    BIGNUM* number = nullptr;
    REQUIRE(EVP_PKEY_get_bn_param(key.get(), name, &number) == 1);
    std::string bytes(static_cast<std::size_t>(BN_num_bytes(number)), '\0');
    BN_bn2bin(number, reinterpret_cast<unsigned char*>(bytes.data()));
    BN_free(number);
    return base64url(bytes);
}

/// With these further members: `,"kid":"1"`.
std::string rsa_jwk(const Signer& signer, const std::string& more = "") {
    return R"({"kty":"RSA","n":")" + number_of(signer, OSSL_PKEY_PARAM_RSA_N) + R"(","e":")" +
           number_of(signer, OSSL_PKEY_PARAM_RSA_E) + "\"" + more + "}";
}

std::string ed25519_jwk(const Signer& signer, const std::string& more = "") {
    std::string bytes(32, '\0');
    std::size_t size = bytes.size();
    const auto key = public_key_of(signer);
    REQUIRE(EVP_PKEY_get_raw_public_key(key.get(), reinterpret_cast<unsigned char*>(bytes.data()),
                                        &size) == 1);
    return R"({"kty":"OKP","crv":"Ed25519","x":")" + base64url(bytes) + "\"" + more + "}";
}

/// Both coordinates with leading zeros, as RFC 7518, 6.2.1.2 asks for.
std::string p256_jwk(const Signer& signer, const std::string& more = "") {
    std::string point(65, '\0');
    std::size_t size = 0;
    const auto key = public_key_of(signer);
    REQUIRE(EVP_PKEY_get_octet_string_param(key.get(), OSSL_PKEY_PARAM_PUB_KEY,
                                            reinterpret_cast<unsigned char*>(point.data()),
                                            point.size(), &size) == 1);
    REQUIRE(size == 65);
    return R"({"kty":"EC","crv":"P-256","x":")" + base64url(point.substr(1, 32)) + R"(","y":")" +
           base64url(point.substr(33)) + "\"" + more + "}";
}

std::string set_of(std::initializer_list<std::string> keys) {
    std::string text;
    for (const std::string& key : keys) text += (text.empty() ? "" : ",") + key;
    return R"({"keys":[)" + text + "]}";
}

constexpr std::int64_t before_expiry = 1'800'000'000;

/// The user, or the refusal behind a "!".
std::string ask_set(const std::string& document, const std::string& token) {
    const JwkReading reading = read_jwk_set(document);
    const auto answer = JwtVerifier({}).verify(token, before_expiry, &reading.set);
    if (const auto* refusal = std::get_if<JwtRefusal>(&answer))
        return (refusal->unknown_key ? "?" : "!") + refusal->why;
    return std::get<JwtClaims>(answer).user;
}

}  // namespace

TEST_CASE("keys of each kind in a set check the tokens that name them") {
    const Signer curve = ec();
    const Signer edwards = ed25519();
    const auto set = set_of({rsa_jwk(rsa(), R"(,"kid":"r","use":"sig","alg":"RS256")"),
                             p256_jwk(curve, R"(,"kid":"c")"),
                             ed25519_jwk(edwards, R"(,"kid":"e","key_ops":["verify"])")});
    CHECK(read_jwk_set(set).set.keys.size() == 3);
    CHECK(ask_set(set, signed_by(rsa(), R"({"alg":"RS256","kid":"r"})")) == "alice");
    CHECK(ask_set(set, signed_by(curve, R"({"alg":"ES256","kid":"c"})")) == "alice");
    CHECK(ask_set(set, signed_by(edwards, R"({"alg":"EdDSA","kid":"e"})")) == "alice");
    CHECK(ask_set(set, signed_by(other_rsa(), R"({"alg":"RS256","kid":"r"})")) ==
          "!its signature is wrong");
    CHECK(ask_set(set, signed_by(rsa(), R"({"alg":"RS256","kid":"c"})")) ==
          "!no key matches its alg and kid");
    CHECK(ask_set(set, hs256(usual_claims, R"({"alg":"HS256","kid":"r"})")) ==
          "!no key matches its alg and kid");
}

TEST_CASE("a token that names a key which is not in the set may wait for it") {
    const auto set = set_of({rsa_jwk(rsa(), R"(,"kid":"old")")});
    CHECK(ask_set(set, signed_by(other_rsa(), R"({"alg":"RS256","kid":"new"})")) ==
          "?no key matches its alg and kid");
    CHECK(ask_set(set, signed_by(rsa(), R"({"alg":"RS256"})")) == "alice");
    CHECK(ask_set(set, signed_by(other_rsa(), R"({"alg":"RS256"})")) == "!its signature is wrong");
}

TEST_CASE("a key that can't check tokens is left out") {
    const std::string good = rsa_jwk(rsa(), R"(,"kid":"good")");
    for (const std::string& bad :
         {std::string("7"), std::string("{}"), std::string(R"({"kty":"RSA"})"),
          std::string(R"({"kty":"oct","k":"c2VjcmV0"})"), rsa_jwk(rsa(), R"(,"use":"enc")"),
          rsa_jwk(rsa(), R"(,"alg":"PS256")"), rsa_jwk(rsa(), R"(,"alg":7)"),
          rsa_jwk(rsa(), R"(,"key_ops":["encrypt"])"), rsa_jwk(rsa(), R"(,"d":"AQAB")"),
          rsa_jwk(rsa(), R"(,"kid":7)"), rsa_jwk(rsa(), R"(,"kid":"\u0000")"),
          rsa_jwk(rsa(), R"(,"kid":")" + std::string(600, 'k') + "\""),
          std::string(R"({"kty":"RSA","n":"AQAB","e":"AQAB"})"),
          R"({"kty":"RSA","n":")" + base64url(std::string(2000, '\xC1')) + R"(","e":"AQAB"})",
          R"({"kty":"RSA","n":")" + number_of(rsa(), OSSL_PKEY_PARAM_RSA_N) + R"(","e":""})",
          R"({"kty":"EC","crv":"P-256","x":")" + base64url(std::string(32, '\x01')) + R"(","y":")" +
              base64url(std::string(32, '\x02')) + "\"}",
          std::string(R"({"kty":"EC","crv":"P-521","x":"AQ","y":"AQ"})"),
          std::string(R"({"kty":"OKP","crv":"Ed25519","x":"AQ"})"),
          std::string(R"({"kty":"OKP","crv":"X25519","x":"AQ"})")}) {
        CAPTURE(bad);
        const JwkReading reading = read_jwk_set(set_of({bad, good}));
        CHECK(reading.trouble.empty());
        CHECK(reading.unusable == 1);
        REQUIRE(reading.set.keys.size() == 1);
        CHECK(reading.set.keys[0].kid == "good");
        CHECK_FALSE(read_jwk_set(set_of({bad})).trouble.empty());
    }
}

TEST_CASE("a document that is no set is refused, however long or deep it is") {
    std::string many = rsa_jwk(rsa());
    for (int i = 0; i < 100; ++i) many += ",{}";
    for (const std::string& bad :
         {std::string(), std::string("garbage"), std::string("[]"), std::string("{}"),
          std::string(R"({"keys":{}})"), std::string(R"({"keys":[]})"), std::string(R"({"keys":[)"),
          std::string(100'000, '['), R"({"keys":)" + std::string(100'000, '['), set_of({many}),
          set_of({rsa_jwk(rsa())}) + std::string(256 * 1024, ' ')}) {
        const JwkReading reading = read_jwk_set(bad);
        CHECK_FALSE(reading.trouble.empty());
        CHECK(reading.set.keys.empty());
    }
    CHECK(read_jwk_set(set_of({many})).trouble == "it has more than 100 keys");
}

TEST_CASE("keys are the same if name and numbers are") {
    const auto key = [](const Signer& signer, const std::string& kid) {
        return read_jwk_set(set_of({rsa_jwk(signer, R"(,"kid":")" + kid + "\"")})).set.keys.at(0);
    };
    CHECK(key(rsa(), "a") == key(rsa(), "a"));
    CHECK_FALSE(key(rsa(), "a") == key(rsa(), "b"));
    CHECK_FALSE(key(rsa(), "a") == key(other_rsa(), "a"));
}
