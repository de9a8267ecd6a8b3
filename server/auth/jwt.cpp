#include "server/auth/jwt.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "server/auth/base64.h"
#include "server/auth/json_claims.h"
#include "server/auth/secret_file.h"
#include "server/base/memory/free_with.h"
#include "server/base/text/lines.h"

namespace pulsegate {

namespace json = boost::json;

namespace {

constexpr std::size_t longest_token = 8192;
constexpr std::size_t shortest_secret = 32;  // RFC 7518, 3.2: as long as the hash
constexpr int shortest_rsa_bits = 2048;      // RFC 7518, 3.3
constexpr std::int64_t leeway = 60;

using PublicKey = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using Bio = std::unique_ptr<BIO, FreeWith<BIO_free>>;
using Digesting = std::unique_ptr<EVP_MD_CTX, FreeWith<EVP_MD_CTX_free>>;
using EcdsaSignature = std::unique_ptr<ECDSA_SIG, FreeWith<ECDSA_SIG_free>>;
using Number = std::unique_ptr<BIGNUM, FreeWith<BN_free>>;

const unsigned char* bytes_of(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

/// Why a check refuses the token; empty if it does not.
using Trouble = std::string_view;

bool verify_hmac(const std::string& secret, std::string_view text, std::string_view signature) {
    unsigned char expected[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    if (!HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), bytes_of(text),
              text.size(), expected, &size))
        return false;
    return signature.size() == size && CRYPTO_memcmp(expected, signature.data(), size) == 0;
}

/// ES256's signature is two numbers of 32 bytes (RFC 7518, 3.4); OpenSSL wants them in DER.
std::string to_der(std::string_view signature) {
    if (signature.size() != 64) return "";
    Number r(BN_bin2bn(bytes_of(signature), 32, nullptr));
    Number s(BN_bin2bn(bytes_of(signature) + 32, 32, nullptr));
    const EcdsaSignature pair(ECDSA_SIG_new());
    if (!r || !s || !pair || ECDSA_SIG_set0(pair.get(), r.get(), s.get()) != 1) return "";
    static_cast<void>(r.release());  // the pair owns both now
    static_cast<void>(s.release());
    unsigned char* der = nullptr;
    const int size = i2d_ECDSA_SIG(pair.get(), &der);
    if (size <= 0) return "";
    std::string text(reinterpret_cast<char*>(der), static_cast<std::size_t>(size));
    OPENSSL_free(der);
    return text;
}

bool verify_public(EVP_PKEY* key, const EVP_MD* digest, std::string_view text,
                   std::string_view signature) {
    const Digesting context(EVP_MD_CTX_new());
    ERR_set_mark();
    const bool good = context &&
                      EVP_DigestVerifyInit(context.get(), nullptr, digest, nullptr, key) == 1 &&
                      EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(),
                                       bytes_of(text), text.size()) == 1;
    ERR_pop_to_mark();  // or this thread's next TLS call would find the errors in the queue
    return good;
}

/// Verifies with the algorithm that the key needs.
bool verify_with(EVP_PKEY* key, std::string_view algorithm, std::string_view text,
                 std::string_view signature) {
    if (algorithm == "EdDSA") return verify_public(key, nullptr, text, signature);
    if (algorithm != "ES256") return verify_public(key, EVP_sha256(), text, signature);
    const std::string der = to_der(signature);
    return !der.empty() && verify_public(key, EVP_sha256(), text, der);
}

/// A JSON object in base64url.
std::optional<json::object> object_in(std::string_view part) {
    const auto text = from_base64url(part);
    if (!text) return std::nullopt;
    return read_object(*text);
}

Trouble read_user(const json::object& claims, JwtClaims& read) {
    const auto* sub = claims.if_contains("sub");
    if (!sub) return "it has no sub";
    if (!sub->is_string()) return "its sub is not a string";
    const auto user = text_of(*sub);
    if (user.empty()) return "its sub is empty";
    if (!valid_user(user)) return "its sub can't be an MQTT username";
    read.user = user;
    return {};
}

Trouble read_times(const json::object& claims, std::int64_t now, bool require_expiry,
                   JwtClaims& read) {
    if (const auto* exp = claims.if_contains("exp")) {
        read.expiry = seconds_of(*exp);
        if (!read.expiry) return "its exp is not a time";
        if (now >= *read.expiry) return "it is expired";
    } else if (require_expiry) {
        return "it has no exp";
    }
    if (const auto* nbf = claims.if_contains("nbf")) {
        const auto from = seconds_of(*nbf);
        if (!from) return "its nbf is not a time";
        if (*from > now + leeway) return "it is not valid yet";
    }
    if (const auto* iat = claims.if_contains("iat")) {
        read.issued = seconds_of(*iat);
        if (!read.issued) return "its iat is not a time";
        if (*read.issued > now + leeway) return "it was issued in the future; compare the clocks";
    }
    return {};
}

Trouble check_issuer(const json::object& claims, std::string_view issuer) {
    if (issuer.empty()) return {};
    const auto* iss = claims.if_contains("iss");
    if (!iss) return "it has no iss";
    if (!iss->is_string() || text_of(*iss) != issuer) return "its iss is not the one asked for";
    return {};
}

Trouble check_audience(const json::object& claims, std::string_view audience) {
    if (audience.empty()) return {};
    const auto* aud = claims.if_contains("aud");
    if (!aud) return "it has no aud";
    const auto is_us = [&](const json::value& one) {
        return one.is_string() && text_of(one) == audience;
    };
    const auto* several = aud->if_array();
    if (several ? std::any_of(several->begin(), several->end(), is_us) : is_us(*aud)) return {};
    return "its aud is not the one asked for";
}

/// `openssl rand -base64 48 > secret` puts a line break behind the secret, and editors may put a
/// byte order mark before it. They are not part of the secret, unless that is binary.
std::string secret_in(const std::string& text) {
    auto line = without_byte_order_mark(text);
    if (line.ends_with('\n')) line.remove_suffix(line.ends_with("\r\n") ? 2 : 1);
    const auto is_visible = [](char c) { return c >= ' ' && c <= '~'; };
    return std::ranges::all_of(line, is_visible) ? std::string(line) : text;
}

std::string remedy_for_pem(const std::string& path, std::string_view text) {
    const auto has = [&](std::string_view what) { return text.find(what) != std::string::npos; };
    if (has("PRIVATE KEY-----"))
        return fmt::format(
            "holds a private key, which belongs to the issuer; make the public one with: openssl "
            "pkey -in {} -pubout",
            path);
    if (has("BEGIN CERTIFICATE-----"))
        return fmt::format(
            "holds a certificate; take its key out with: openssl x509 -in {} -noout -pubkey", path);
    if (has("BEGIN RSA PUBLIC KEY-----"))
        return fmt::format(
            "holds an old form of key; convert it with: openssl rsa -in {} "
            "-RSAPublicKey_in -pubout",
            path);
    return "holds no public key in PEM, which begins with -----BEGIN PUBLIC KEY-----; make one of "
           "the private key with: openssl pkey -in PRIVATE_KEY -pubout";
}

}  // namespace

struct JwtVerifier::Key {
    bool named(std::string_view kid) const {
        return kid == name || kid == std::string_view(name).substr(0, stem_size);
    }

    bool verify(std::string_view text, std::string_view signature) const {
        if (!public_key) return verify_hmac(secret, text, signature);
        return verify_with(public_key.get(), algorithm, text, signature);
    }

    std::string name;  ///< of the file
    std::size_t stem_size = 0;
    std::string_view algorithm;
    std::string secret;    ///< or
    PublicKey public_key;  ///< the one that `algorithm` needs
};

namespace {

/// The algorithm of a public key. Throws std::runtime_error that says which kinds of key are
/// supported.
std::string_view algorithm_of(EVP_PKEY* key, const std::string& path) {
    const auto fail = [&](std::string_view what) {
        return std::runtime_error(fmt::format("{}: {}", path, what));
    };
    if (EVP_PKEY_is_a(key, "ED25519")) return "EdDSA";
    if (EVP_PKEY_is_a(key, "RSA")) {
        if (EVP_PKEY_get_bits(key) < shortest_rsa_bits)
            throw fail("the RSA key is too short; use one of 2048 bits or more");
        return "RS256";
    }
    if (EVP_PKEY_is_a(key, "EC")) {
        char curve[64] = "";
        EVP_PKEY_get_group_name(key, curve, sizeof curve, nullptr);
        if (std::string_view(curve) == "prime256v1") return "ES256";
        throw fail("the EC key is not on the curve P-256; only ES256 is supported");
    }
    throw fail("this kind of key is not supported; use RSA, EC P-256 or Ed25519");
}

}  // namespace

JwtVerifier::JwtVerifier(const JwtSettings& settings)
    : issuer_(settings.issuer),
      audience_(settings.audience),
      require_expiry_(settings.require_expiry) {
    for (const auto& path : settings.secret_files) add_secret(path);
    for (const auto& path : settings.public_key_files) add_public_key(path);
}

JwtVerifier::~JwtVerifier() = default;
JwtVerifier::JwtVerifier(JwtVerifier&&) noexcept = default;
JwtVerifier& JwtVerifier::operator=(JwtVerifier&&) noexcept = default;

namespace {

template <class Key>
std::unique_ptr<Key> named_after(const std::string& path) {
    const std::filesystem::path file(path);
    auto key = std::make_unique<Key>();
    key->name = file.filename().string();
    key->stem_size = file.stem().string().size();
    return key;
}

}  // namespace

void JwtVerifier::add_secret(const std::string& path) {
    SecretFile file = read_secret_file(path);
    if (file.text.find("-----BEGIN") != std::string::npos)
        throw std::runtime_error(path +
                                 ": holds a key in PEM, not a secret for HS256; set it as a public "
                                 "key");
    auto key = named_after<Key>(path);
    key->algorithm = "HS256";
    key->secret = secret_in(file.text);
    if (key->secret.size() < shortest_secret)
        throw std::runtime_error(fmt::format(
            "{}: a secret for HS256 needs {} bytes or more; make one with: openssl rand -base64 48",
            path, shortest_secret));
    keys_.push_back(std::move(key));
    if (!file.warning.empty()) warnings_.push_back(std::move(file.warning));
}

void JwtVerifier::add_public_key(const std::string& path) {
    const SecretFile file = read_secret_file(path);
    const auto text = without_byte_order_mark(file.text);
    const Bio source(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    auto key = named_after<Key>(path);
    key->public_key.reset(source ? PEM_read_bio_PUBKEY(source.get(), nullptr, nullptr, nullptr)
                                 : nullptr);
    if (!key->public_key)
        throw std::runtime_error(fmt::format("{}: {}", path, remedy_for_pem(path, text)));
    key->algorithm = algorithm_of(key->public_key.get(), path);
    keys_.push_back(std::move(key));
}

/// What decides by which keys a token is checked, and what they sign.
struct JwtVerifier::SignedToken {
    std::string_view algorithm;
    std::optional<std::string_view> kid;
    std::string_view text;
    std::string_view signature;
};

bool JwtVerifier::names_file(std::string_view kid) const {
    return std::ranges::any_of(keys_, [&](const auto& key) { return key->named(kid); });
}

/// Its `why` is empty if one of the keys has signed the token.
JwtRefusal JwtVerifier::judge_signature(const SignedToken& token, const JwkSet* served) const {
    const bool is_of_file = token.kid && names_file(*token.kid);
    const bool is_served = !is_of_file && token.kid && served && served->has(*token.kid);
    std::size_t fitting = 0;
    for (const auto& key : keys_) {
        if (is_served || key->algorithm != token.algorithm) continue;
        if (is_of_file && !key->named(*token.kid)) continue;
        ++fitting;
        if (key->verify(token.text, token.signature)) return {};
    }
    for (std::size_t i = 0; !is_of_file && served && i < served->keys.size(); ++i) {
        const Jwk& key = served->keys[i];
        const bool is_asked_for = !token.kid || key.kid == *token.kid;
        if (!is_asked_for || key.algorithm != token.algorithm) continue;
        ++fitting;
        if (verify_with(key.key.get(), key.algorithm, token.text, token.signature)) return {};
    }
    const bool is_known = is_of_file || is_served || (!token.kid && served);
    return {.why = fitting > 0 ? "its signature is wrong" : "no key matches its alg and kid",
            .forged = true,
            .unknown_key = !is_known};
}

std::variant<JwtClaims, JwtRefusal> JwtVerifier::verify(std::string_view token, std::int64_t now,
                                                        const JwkSet* served) const {
    const auto disown = [](std::string_view why) { return JwtRefusal{std::string(why), true}; };
    if (token.size() > longest_token) return disown("it is longer than 8 KiB");
    const auto first_dot = token.find('.');
    const auto last_dot = token.rfind('.');
    if (std::count(token.begin(), token.end(), '.') != 2)
        return disown("it is not a signed token of three parts");

    const auto header = object_in(token.substr(0, first_dot));
    if (!header) return disown("its header can't be read");
    const auto* alg = header->if_contains("alg");
    const auto* kid = header->if_contains("kid");
    if (!alg || !alg->is_string()) return disown("it states no alg");
    if (kid && !kid->is_string()) return disown("its kid is not a string");
    // RFC 7515, 4.1.11: a token with unknown critical extensions must be refused.
    if (header->contains("crit")) return disown("it asks for extensions (crit)");

    const auto signature = from_base64url(token.substr(last_dot + 1));
    if (!signature) return disown("its signature can't be read");
    const auto signed_text = token.substr(0, last_dot);
    auto refusal = judge_signature({.algorithm = text_of(*alg),
                                    .kid = kid ? std::optional(text_of(*kid)) : std::nullopt,
                                    .text = signed_text,
                                    .signature = *signature},
                                   served);
    if (!refusal.why.empty()) return refusal;

    const auto refuse = [](std::string_view why) { return JwtRefusal{std::string(why)}; };
    const auto claims = object_in(signed_text.substr(first_dot + 1));
    if (!claims) return refuse("its claims can't be read");
    JwtClaims read;
    for (const Trouble trouble :
         {read_user(*claims, read), read_times(*claims, now, require_expiry_, read),
          check_issuer(*claims, issuer_), check_audience(*claims, audience_)})
        if (!trouble.empty()) return refuse(trouble);
    if (const auto* acl = claims->if_contains("acl")) {
        auto trouble = read_rules(*acl, read.rules.emplace());
        if (!trouble.empty()) return JwtRefusal{std::move(trouble)};
    }
    return read;
}

}  // namespace pulsegate
