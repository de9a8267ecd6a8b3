#include "server/events/signature.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <span>

namespace pulsegate {

std::string webhook_signature(std::string_view secret, std::int64_t time, std::string_view body) {
    const std::string text = fmt::format("{}.{}", time, body);
    std::array<unsigned char, EVP_MAX_MD_SIZE> mac{};
    unsigned size = 0;
    HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), &size);
    std::string signature = fmt::format("t={},v1=", time);
    for (const unsigned char byte : std::span(mac).first(size))
        signature += fmt::format("{:02x}", byte);
    return signature;
}

}  // namespace pulsegate
