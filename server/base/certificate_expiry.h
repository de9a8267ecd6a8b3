#pragma once

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cstdint>
#include <ctime>

namespace pulsegate {

/// When the certificate expires, in seconds since 1970. An unreadable time counts as passed.
inline std::int64_t expiry_of(const X509* certificate) {
    std::tm end{};
    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) != 1) return 0;
    return ::timegm(&end);
}

/// The earliest expiry of the context's certificate and its chain.
inline std::int64_t first_expiry(SSL_CTX* context) {
    std::int64_t first = expiry_of(SSL_CTX_get0_certificate(context));
    STACK_OF(X509)* chain = nullptr;
    if (SSL_CTX_get0_chain_certs(context, &chain) != 1) return first;
    for (int i = 0; i < sk_X509_num(chain); ++i)
        first = std::min(first, expiry_of(sk_X509_value(chain, i)));
    return first;
}

}  // namespace pulsegate
