#pragma once

#include <cstdint>
#include <string>

namespace pulsegate {

/// When a certificate of the gateway expires, or the certificate in its chain that expires first.
struct CertificateEnd {
    std::string setting{};  ///< the setting that names its file
    std::string file{};
    std::int64_t end = 0;  ///< seconds since 1970
};

}  // namespace pulsegate
