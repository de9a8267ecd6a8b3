#include "server/auth/jwk_set.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/param_build.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <utility>

#include "protocol/utf8.h"
#include "server/auth/base64.h"
#include "server/auth/json_claims.h"
#include "server/base/memory/free_with.h"

namespace pulsegate {

namespace json = boost::json;

namespace {

constexpr std::size_t most_keys = 100;
constexpr std::size_t longest_kid = 512;
constexpr int least_rsa_bits = 2048;
constexpr int most_rsa_bits = 8192;  // a check by a longer key takes too much time
constexpr std::size_t longest_exponent = 8;
constexpr std::size_t coordinate_bytes = 32;

using JwkContext = std::unique_ptr<EVP_PKEY_CTX, FreeWith<EVP_PKEY_CTX_free>>;
using JwkParameters = std::unique_ptr<OSSL_PARAM, FreeWith<OSSL_PARAM_free>>;
using JwkParameterBuilder = std::unique_ptr<OSSL_PARAM_BLD, FreeWith<OSSL_PARAM_BLD_free>>;
using JwkNumber = std::unique_ptr<BIGNUM, FreeWith<BN_free>>;
using JwkKey = std::shared_ptr<EVP_PKEY>;

const unsigned char* jwk_bytes(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

JwkKey owned_key(EVP_PKEY* key) { return JwkKey(key, EVP_PKEY_free); }

/// The text of a member; "" if it is missing, or no string.
std::string_view member_text(const json::object& key, std::string_view name) {
    const auto* const member = key.if_contains(name);
    return member && member->is_string() ? text_of(*member) : std::string_view();
}

/// The bytes of a member in base64url; "" if there are none.
std::string member_bytes(const json::object& key, std::string_view name) {
    return from_base64url(member_text(key, name)).value_or("");
}

/// Null if the key is not valid, such as a point that is not on its curve.
JwkKey key_from(const char* type, OSSL_PARAM* parameters) {
    const JwkContext making(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
    EVP_PKEY* made = nullptr;
    if (!making || EVP_PKEY_fromdata_init(making.get()) != 1 ||
        EVP_PKEY_fromdata(making.get(), &made, EVP_PKEY_PUBLIC_KEY, parameters) != 1)
        return nullptr;
    JwkKey key = owned_key(made);
    const JwkContext checking(EVP_PKEY_CTX_new(made, nullptr));
    return checking && EVP_PKEY_public_check(checking.get()) == 1 ? key : nullptr;
}

JwkKey rsa_key(const json::object& key) {
    const std::string modulus = member_bytes(key, "n");
    const std::string exponent = member_bytes(key, "e");
    if (modulus.size() > most_rsa_bits / 8 || exponent.size() > longest_exponent) return nullptr;
    const JwkNumber n(BN_bin2bn(jwk_bytes(modulus), static_cast<int>(modulus.size()), nullptr));
    const JwkNumber e(BN_bin2bn(jwk_bytes(exponent), static_cast<int>(exponent.size()), nullptr));
    if (!n || !e || BN_num_bits(n.get()) < least_rsa_bits) return nullptr;
    const JwkParameterBuilder builder(OSSL_PARAM_BLD_new());
    if (!builder || OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get()) != 1 ||
        OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get()) != 1)
        return nullptr;
    const JwkParameters parameters(OSSL_PARAM_BLD_to_param(builder.get()));
    return parameters ? key_from("RSA", parameters.get()) : nullptr;
}

JwkKey p256_key(const json::object& key) {
    const std::string x = member_bytes(key, "x");
    const std::string y = member_bytes(key, "y");
    const bool is_p256 = member_text(key, "crv") == "P-256";
    if (!is_p256 || x.size() != coordinate_bytes || y.size() != coordinate_bytes) return nullptr;
    std::string point = '\x04' + x + y;  // uncompressed (SEC 1, 2.3.3)
    std::string curve = "prime256v1";
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, curve.data(), 0),
        OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size()),
        OSSL_PARAM_construct_end()};
    return key_from("EC", parameters);
}

JwkKey ed25519_key(const json::object& key) {
    const std::string x = member_bytes(key, "x");
    if (member_text(key, "crv") != "Ed25519" || x.size() != coordinate_bytes) return nullptr;
    return owned_key(
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, jwk_bytes(x), x.size()));
}

/// True if the key is for signatures of tokens, or does not state its use.
bool is_for_signatures(const json::object& key) {
    if (key.contains("d") || key.contains("k")) return false;  // a secret that is none any more
    if (key.contains("use") && member_text(key, "use") != "sig") return false;
    const auto* const operations = key.if_contains("key_ops");
    if (!operations) return true;
    const auto* const all = operations->if_array();
    return all && std::ranges::any_of(*all, [](const json::value& each) {
               return each.is_string() && text_of(each) == "verify";
           });
}

std::optional<Jwk> read_jwk(const json::value& value) {
    const auto* const key = value.if_object();
    if (!key || !is_for_signatures(*key)) return std::nullopt;
    Jwk read;
    const auto type = member_text(*key, "kty");
    if (type == "RSA") read = {.algorithm = "RS256", .key = rsa_key(*key)};
    if (type == "EC") read = {.algorithm = "ES256", .key = p256_key(*key)};
    if (type == "OKP") read = {.algorithm = "EdDSA", .key = ed25519_key(*key)};
    if (!read.key) return std::nullopt;
    if (key->contains("alg") && member_text(*key, "alg") != read.algorithm) return std::nullopt;
    read.kid = member_text(*key, "kid");
    const bool is_named = !key->contains("kid") || !read.kid.empty();
    const bool is_told = read.kid.size() <= longest_kid && !has_control_character(read.kid);
    return is_named && is_told ? std::optional(std::move(read)) : std::nullopt;
}

}  // namespace

bool JwkSet::has(std::string_view kid) const {
    return std::ranges::any_of(keys, [&](const Jwk& key) { return key.kid == kid; });
}

JwkReading read_jwk_set(std::string_view document) {
    const auto failed = [](const char* why) {
        return JwkReading{.set = {}, .unusable = 0, .trouble = why};
    };
    if (document.size() > most_jwk_set_bytes) return failed("it is longer than 256 KiB");
    const auto object = read_object(document);
    if (!object) return failed("it is not a JSON object");
    const auto* const member = object->if_contains("keys");
    const auto* const keys = member ? member->if_array() : nullptr;
    if (!keys) return failed("it has no array 'keys': it is no JWK set");
    if (keys->size() > most_keys) return failed("it has more than 100 keys");
    JwkReading reading;
    ERR_set_mark();
    for (const json::value& each : *keys) {
        if (auto key = read_jwk(each))
            reading.set.keys.push_back(*std::move(key));
        else
            ++reading.unusable;
    }
    ERR_pop_to_mark();  // or this thread's next TLS call would find the errors in the queue
    if (reading.set.keys.empty())
        reading.trouble = "it has no key for RS256, ES256 or EdDSA that can check tokens";
    return reading;
}

}  // namespace pulsegate
