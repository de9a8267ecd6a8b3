#include "loadgen/client/jwt_signer.h"

#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <boost/json.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <new>
#include <stdexcept>
#include <utility>

namespace pulsegate::load {

namespace {

std::runtime_error no_key(const std::string& file, const std::string& why) {
    return std::runtime_error("can't sign tokens with " + file + ": " + why);
}

std::string secret_of(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(in)), {});
    if (!in) throw no_key(file, "it can't be read");
    text.resize(text.find_last_not_of("\r\n") + 1);
    if (text.empty()) throw no_key(file, "it is empty");
    return text;
}

bool is_p256(EVP_PKEY* key) {
    char curve[32] = "";
    std::size_t size = 0;
    return EVP_PKEY_get_group_name(key, curve, sizeof curve, &size) == 1 &&
           std::string_view(curve) == "prime256v1";
}

/// RFC 7518, section 3.4: the signature is two numbers of 32 bytes, one after the other. OpenSSL
/// produces DER instead.
std::string without_der(const std::string& der) {
    const auto* at = reinterpret_cast<const unsigned char*>(der.data());
    const std::unique_ptr<ECDSA_SIG, decltype(&ECDSA_SIG_free)> pair(
        d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size())), ECDSA_SIG_free);
    if (!pair) throw std::bad_alloc();
    unsigned char numbers[64];
    BN_bn2binpad(ECDSA_SIG_get0_r(pair.get()), numbers, 32);
    BN_bn2binpad(ECDSA_SIG_get0_s(pair.get()), numbers + 32, 32);
    return {reinterpret_cast<const char*>(numbers), sizeof numbers};
}

std::string in_quotes(std::string_view text) {
    return boost::json::serialize(boost::json::value(boost::json::string(text)));
}

}  // namespace

std::string base64url(std::string_view bytes) {
    std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL adds a zero
    const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
    text.resize(static_cast<std::size_t>(size));
    text.resize(text.find_last_not_of('=') + 1);
    for (char& each : text) each = each == '+' ? '-' : each == '/' ? '_' : each;
    return text;
}

void JwtSigner::Free::operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }

JwtSigner::JwtSigner(Key key, std::string_view algorithm)
    : key_(std::move(key)), slow_(algorithm != "HS256"), elliptic_(algorithm == "ES256") {
    header_ = base64url("{\"alg\":\"" + std::string(algorithm) + "\",\"typ\":\"JWT\"}") + '.';
}

JwtSigner JwtSigner::with_secret(const std::string& file) {
    const std::string secret = secret_of(file);
    Key key(EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, nullptr,
                                         reinterpret_cast<const unsigned char*>(secret.data()),
                                         secret.size()));
    if (!key) throw no_key(file, "OpenSSL refuses the secret");
    return {std::move(key), "HS256"};
}

JwtSigner JwtSigner::with_key(const std::string& file) {
    const std::unique_ptr<std::FILE, decltype(&std::fclose)> in(std::fopen(file.c_str(), "re"),
                                                                std::fclose);
    if (!in) throw no_key(file, "it can't be read");
    Key key(PEM_read_PrivateKey(in.get(), nullptr, nullptr, const_cast<char*>("")));
    ERR_clear_error();
    if (!key) throw no_key(file, "it is not a private key in PEM without a passphrase");
    if (EVP_PKEY_is_a(key.get(), "RSA")) return {std::move(key), "RS256"};
    if (is_p256(key.get())) return {std::move(key), "ES256"};
    throw no_key(file, "only RSA keys (RS256) and EC keys on the curve P-256 (ES256) will do");
}

std::string JwtSigner::sign(std::string_view user, std::string_view id, std::int64_t now,
                            std::chrono::seconds life) const {
    const std::string claims = "{\"sub\":" + in_quotes(user) + ",\"jti\":" + in_quotes(id) +
                               ",\"iat\":" + std::to_string(now) +
                               ",\"exp\":" + std::to_string(now + life.count()) + '}';
    std::string token = header_ + base64url(claims);
    return token + '.' + base64url(signature(token));
}

std::string JwtSigner::signature(std::string_view text) const {
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                          EVP_MD_CTX_free);
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    unsigned char signature[1024];  // of an RSA key of 8192 bits
    std::size_t size = sizeof signature;
    if (EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key_.get()) != 1 ||
        EVP_DigestSign(context.get(), signature, &size, bytes, text.size()) != 1)
        throw std::runtime_error("a token could not be signed: the key is not usable");
    const std::string raw(reinterpret_cast<const char*>(signature), size);
    return elliptic_ ? without_der(raw) : raw;
}

}  // namespace pulsegate::load
