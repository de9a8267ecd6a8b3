#include "server/auth/credential_mac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <stdexcept>
#include <string>

namespace pulsegate {

CredentialMacs::CredentialMacs() {
    if (RAND_bytes(key_.data(), static_cast<int>(key_.size())) != 1)
        throw std::runtime_error("OpenSSL has no random numbers");
}

CredentialMac CredentialMacs::of(std::initializer_list<std::string_view> texts) const {
    std::string whole;
    for (const std::string_view text : texts) {
        whole += std::to_string(text.size());
        whole += ':';  // so "a" + "bc" differs from "ab" + "c"
        whole += text;
    }
    CredentialMac mac;
    const bool done = HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
                           reinterpret_cast<const unsigned char*>(whole.data()), whole.size(),
                           mac.data(), nullptr);
    OPENSSL_cleanse(whole.data(), whole.size());
    if (!done) throw std::runtime_error("OpenSSL can't compute a MAC");
    return mac;
}

}  // namespace pulsegate
