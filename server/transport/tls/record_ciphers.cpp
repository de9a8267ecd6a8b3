#include "server/transport/tls/record_ciphers.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/params.h>

namespace pulsegate {

namespace {

constexpr std::array<const char*, suites> cipher_names = {"AES-128-GCM", "AES-256-GCM",
                                                          "ChaCha20-Poly1305"};

constexpr std::string_view label_prefix = "tls13 ";

std::size_t index_of(Suite suite) { return static_cast<std::size_t>(suite); }

/// Makes a parameter. OpenSSL takes non-const pointers even for parameters that it only reads.
template <class Character>
OSSL_PARAM text_parameter(const char* name, const Character* text, std::size_t size) {
    return OSSL_PARAM_construct_octet_string(name, const_cast<Character*>(text), size);
}

/// A context for HKDF-Expand-Label with the hash of this size. Naming the hash for each label would
/// take longer.
std::unique_ptr<EVP_KDF_CTX, FreeWith<EVP_KDF_CTX_free>> derivation_with(std::size_t hash_size) {
    const std::unique_ptr<EVP_KDF, FreeWith<EVP_KDF_free>> derivation(
        EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_TLS1_3_KDF, nullptr));
    if (!derivation) return nullptr;
    std::unique_ptr<EVP_KDF_CTX, FreeWith<EVP_KDF_CTX_free>> made(
        EVP_KDF_CTX_new(derivation.get()));
    int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
    char sha256[] = "SHA256";
    char sha384[] = "SHA384";
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, hash_size == 48 ? sha384 : sha256,
                                         0),
        text_parameter(OSSL_KDF_PARAM_PREFIX, label_prefix.data(), label_prefix.size()),
        OSSL_PARAM_construct_end()};
    if (!made || EVP_KDF_CTX_set_params(made.get(), parameters) != 1) return nullptr;
    return made;
}

}  // namespace

RecordCiphers& RecordCiphers::of_this_thread() {
    thread_local RecordCiphers ciphers;
    return ciphers;
}

/// A suite that OpenSSL lacks gets no contexts.
RecordCiphers::RecordCiphers() {
    for (std::size_t i = 0; i < suites; ++i) {
        const std::unique_ptr<EVP_CIPHER, FreeWith<EVP_CIPHER_free>> cipher(
            EVP_CIPHER_fetch(nullptr, cipher_names[i], nullptr));
        Context opening(EVP_CIPHER_CTX_new());
        Context sealing(EVP_CIPHER_CTX_new());
        if (!cipher || !opening || !sealing) continue;
        // Set once, because naming the cipher for each record would take twenty times as long.
        if (EVP_DecryptInit_ex(opening.get(), cipher.get(), nullptr, nullptr, nullptr) != 1 ||
            EVP_EncryptInit_ex(sealing.get(), cipher.get(), nullptr, nullptr, nullptr) != 1)
            continue;
        opening_[i] = std::move(opening);
        sealing_[i] = std::move(sealing);
    }
    for (std::size_t i = 0; i < suites; ++i)
        derivations_[i] = derivation_with(secret_size(static_cast<Suite>(i)));
    ERR_clear_error();
}

bool RecordCiphers::has(Suite suite) const {
    return derivations_[index_of(suite)] && opening_[index_of(suite)];
}

bool RecordCiphers::seal(const Use& use, std::span<const std::uint8_t> header,
                         std::span<std::uint8_t> text, std::span<std::uint8_t, tag_size> tag) {
    EVP_CIPHER_CTX* const context = sealing_[index_of(use.suite)].get();
    OSSL_PARAM made[] = {text_parameter(OSSL_CIPHER_PARAM_AEAD_TAG, tag.data(), tag.size()),
                         OSSL_PARAM_construct_end()};
    int size = 0;
    return context &&
           EVP_EncryptInit_ex(context, nullptr, nullptr, use.key, use.nonce.data()) == 1 &&
           EVP_EncryptUpdate(context, nullptr, &size, header.data(),
                             static_cast<int>(header.size())) == 1 &&
           EVP_EncryptUpdate(context, text.data(), &size, text.data(),
                             static_cast<int>(text.size())) == 1 &&
           EVP_EncryptFinal_ex(context, text.data() + size, &size) == 1 &&
           EVP_CIPHER_CTX_get_params(context, made) == 1;
}

bool RecordCiphers::open(const Use& use, std::span<const std::uint8_t> header,
                         std::span<std::uint8_t> text, std::span<std::uint8_t, tag_size> tag) {
    EVP_CIPHER_CTX* const context = opening_[index_of(use.suite)].get();
    const OSSL_PARAM expected[] = {
        text_parameter(OSSL_CIPHER_PARAM_AEAD_TAG, tag.data(), tag.size()),
        OSSL_PARAM_construct_end()};
    int size = 0;
    const bool opened =
        context &&
        EVP_DecryptInit_ex2(context, nullptr, use.key, use.nonce.data(), expected) == 1 &&
        EVP_DecryptUpdate(context, nullptr, &size, header.data(),
                          static_cast<int>(header.size())) == 1 &&
        EVP_DecryptUpdate(context, text.data(), &size, text.data(),
                          static_cast<int>(text.size())) == 1 &&
        EVP_DecryptFinal_ex(context, text.data() + size, &size) == 1;
    if (!opened) ERR_clear_error();  // otherwise a later caller of OpenSSL would see this error
    return opened;
}

bool RecordCiphers::expand(Suite suite, std::span<const std::uint8_t> secret,
                           std::string_view label, std::span<std::uint8_t> to) {
    EVP_KDF_CTX* const derivation = derivations_[index_of(suite)].get();
    if (!derivation) return false;
    const OSSL_PARAM parameters[] = {
        text_parameter(OSSL_KDF_PARAM_KEY, secret.data(), secret.size()),
        text_parameter(OSSL_KDF_PARAM_LABEL, label.data(), label.size()),
        OSSL_PARAM_construct_end()};
    const bool done = EVP_KDF_derive(derivation, to.data(), to.size(), parameters) == 1;
    // The context has a copy of the secret. OpenSSL wipes this copy when another key replaces it.
    static constexpr std::uint8_t none = 0;
    const OSSL_PARAM forgotten[] = {text_parameter(OSSL_KDF_PARAM_KEY, &none, sizeof none),
                                    OSSL_PARAM_construct_end()};
    return EVP_KDF_CTX_set_params(derivation, forgotten) == 1 && done;
}

}  // namespace pulsegate
