#pragma once

#include <vector>

#include "server/base/certificate_end.h"

struct ssl_ctx_st;

namespace pulsegate {

struct LinkSettings;

/// Of link-cert, the first end of a certificate in its chain. Of link-ca, the end of the CA that
/// signed this node's certificate: other CAs in the file may be old ones that nobody needs.
std::vector<CertificateEnd> link_certificates(const LinkSettings& settings, ssl_ctx_st* context);

}  // namespace pulsegate
