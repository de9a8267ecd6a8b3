#include "tests/support/tokens.h"

#include <doctest/doctest.h>
#include <openssl/ec.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>

#include <algorithm>

#include "server/auth/base64.h"

namespace pulsegate {

namespace {

std::string_view view(const std::vector<unsigned char>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class Write>
std::string pem(Write write) {
    BIO* out = BIO_new(BIO_s_mem());
    write(out);
    char* text = nullptr;
    const auto size = BIO_get_mem_data(out, &text);
    std::string copy(text, static_cast<std::size_t>(size));
    BIO_free(out);
    return copy;
}

/// An ECDSA signature as a token has it (RFC 7518, 3.4).
std::string two_numbers(const std::vector<unsigned char>& der) {
    const unsigned char* at = der.data();
    ECDSA_SIG* pair = d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size()));
    REQUIRE(pair);
    std::vector<unsigned char> bytes(64);
    BN_bn2binpad(ECDSA_SIG_get0_r(pair), bytes.data(), 32);
    BN_bn2binpad(ECDSA_SIG_get0_s(pair), bytes.data() + 32, 32);
    ECDSA_SIG_free(pair);
    return std::string(view(bytes));
}

}  // namespace

std::string base64url(std::string_view bytes) {
    std::string text = to_base64(bytes);
    std::replace(text.begin(), text.end(), '+', '-');
    std::replace(text.begin(), text.end(), '/', '_');
    text.erase(std::min(text.find('='), text.size()));
    return text;
}

Signer::Signer(EVP_PKEY* key) : key_(key, EVP_PKEY_free) { REQUIRE(key_); }

std::string Signer::public_pem() const {
    return pem([&](BIO* out) { PEM_write_bio_PUBKEY(out, key_.get()); });
}

std::string Signer::private_pem() const {
    return pem([&](BIO* out) {
        PEM_write_bio_PrivateKey(out, key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
}

std::string Signer::sign(const std::string& text) const {
    const bool hashes = !EVP_PKEY_is_a(key_.get(), "ED25519");
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                          EVP_MD_CTX_free);
    REQUIRE(EVP_DigestSignInit(context.get(), nullptr, hashes ? EVP_sha256() : nullptr, nullptr,
                               key_.get()) == 1);
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    std::vector<unsigned char> signature(1024);
    std::size_t size = signature.size();
    REQUIRE(EVP_DigestSign(context.get(), signature.data(), &size, bytes, text.size()) == 1);
    signature.resize(size);
    return EVP_PKEY_is_a(key_.get(), "EC") ? two_numbers(signature) : std::string(view(signature));
}

const Signer& rsa() {
    static const Signer signer(EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", std::size_t{2048}));
    return signer;
}
const Signer& other_rsa() {
    static const Signer signer(EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", std::size_t{2048}));
    return signer;
}
Signer ec(const char* curve) { return Signer(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", curve)); }
Signer ed25519() { return Signer(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")); }

std::string hmac(const std::string& key, const std::string& text) {
    std::vector<unsigned char> out(32);
    HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data(), nullptr);
    return std::string(view(out));
}

std::string unsigned_token(const std::string& header, const std::string& claims) {
    return base64url(header) + "." + base64url(claims);
}

std::string hs256(const std::string& claims, const std::string& header, const std::string& key) {
    const auto text = unsigned_token(header, claims);
    return text + "." + base64url(hmac(key, text));
}

std::string signed_by(const Signer& signer, const std::string& header, const std::string& claims) {
    const auto text = unsigned_token(header, claims);
    return text + "." + base64url(signer.sign(text));
}

}  // namespace pulsegate
