#pragma once

#include <cstdint>
#include <string>
#include <vector>

struct ssl_ctx_st;

namespace pulsegate {

struct LinkSettings;

/// When a file of this node's link stops being useful.
struct LinkCertificate {
    std::string setting{};
    std::string file{};
    std::int64_t end = 0;  ///< seconds since 1970
};

/// Of link-cert, the first end of a certificate in its chain. Of link-ca, the end of the CA that
/// signed this node's certificate: other CAs in the file may be old ones that nobody needs.
std::vector<LinkCertificate> link_certificates(const LinkSettings& settings, ssl_ctx_st* context);

}  // namespace pulsegate
