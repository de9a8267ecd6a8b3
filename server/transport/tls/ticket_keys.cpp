#include "server/transport/tls/ticket_keys.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace pulsegate {

namespace {

// The values that OpenSSL expects from the callback (SSL_CTX_set_tlsext_ticket_key_evp_cb).
constexpr int failed = -1;
constexpr int unknown_key = 0;
constexpr int usable = 1;
constexpr int usable_and_to_be_renewed = 2;

template <class Secret>
bool set_mac_key(EVP_MAC_CTX* mac, Secret& key) {
    char digest[] = "SHA256";
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key.data(), key.size()),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end()};
    return EVP_MAC_CTX_set_params(mac, parameters) == 1;
}

}  // namespace

TicketKeys::TicketKeys() : present_(random_key()), past_(random_key()), since_(monotonic_now()) {}

TicketKeys::~TicketKeys() {
    OPENSSL_cleanse(&present_, sizeof present_);
    OPENSSL_cleanse(&past_, sizeof past_);
}

TicketKeysRecord TicketKeys::describe() const {
    const auto bytes = [](const Key& key) {
        return SecretBytes({reinterpret_cast<const char*>(&key), sizeof key});
    };
    const std::lock_guard lock(mutex_);
    return {.age = monotonic_now() - since_, .present = bytes(present_), .past = bytes(past_)};
}

void TicketKeys::adopt(const TicketKeysRecord& record) {
    const auto present = record.present.view();
    const auto past = record.past.view();
    if (present.size() != sizeof present_ || past.size() != sizeof past_) return;
    const std::lock_guard lock(mutex_);
    std::memcpy(&present_, present.data(), sizeof present_);
    std::memcpy(&past_, past.data(), sizeof past_);
    since_ = monotonic_now() - std::clamp<Millis>(record.age, 0, 2 * period);
}

TicketKeys::Key TicketKeys::random_key() {
    Key key;
    static_assert(sizeof key == sizeof key.name + sizeof key.cipher + sizeof key.mac);
    if (RAND_bytes(reinterpret_cast<unsigned char*>(&key), sizeof key) != 1)
        throw std::runtime_error("tls: OpenSSL has no random numbers");
    return key;
}

void TicketKeys::use_for(SSL_CTX* context) {
    SSL_CTX_set_app_data(context, this);
    SSL_CTX_set_tlsext_ticket_key_evp_cb(context, on_ticket);
}

int TicketKeys::on_ticket(SSL* ssl, unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher,
                          EVP_MAC_CTX* mac, int encrypts) try {
    auto& keys = *static_cast<TicketKeys*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
    const std::lock_guard lock(keys.mutex_);
    keys.renew(monotonic_now());
    if (encrypts) return keys.seal(name, iv, cipher, mac);
    const int opened = keys.open(name, iv, cipher, mac);
    // In TLS 1.3, a ticket is used once. An observer who sees it twice would know that it is the
    // same client (RFC 8446, appendix C.4).
    const bool once = SSL_version(ssl) == TLS1_3_VERSION;
    return opened == usable && once ? usable_and_to_be_renewed : opened;
} catch (const std::exception&) {
    return failed;
}

void TicketKeys::renew(Millis now) {
    if (now - since_ < period) return;
    const bool long_ago = now - since_ >= 2 * period;
    past_ = long_ago ? random_key() : present_;
    present_ = random_key();
    since_ = now;
}

int TicketKeys::seal(unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher,
                     EVP_MAC_CTX* mac) {
    std::memcpy(name, present_.name.data(), present_.name.size());
    const auto* const algorithm = EVP_aes_256_cbc();
    const bool done =
        RAND_bytes(iv, EVP_CIPHER_get_iv_length(algorithm)) == 1 &&
        EVP_EncryptInit_ex(cipher, algorithm, nullptr, present_.cipher.data(), iv) == 1 &&
        set_mac_key(mac, present_.mac);
    return done ? usable : failed;
}

int TicketKeys::open(const unsigned char* name, const unsigned char* iv, EVP_CIPHER_CTX* cipher,
                     EVP_MAC_CTX* mac) {
    const auto is_of = [name](const Key& key) {
        return CRYPTO_memcmp(name, key.name.data(), key.name.size()) == 0;
    };
    if (!is_of(present_) && !is_of(past_)) return unknown_key;
    Key& key = is_of(present_) ? present_ : past_;
    const bool done =
        EVP_DecryptInit_ex(cipher, EVP_aes_256_cbc(), nullptr, key.cipher.data(), iv) == 1 &&
        set_mac_key(mac, key.mac);
    if (!done) return failed;
    return is_of(present_) ? usable : usable_and_to_be_renewed;
}

}  // namespace pulsegate
