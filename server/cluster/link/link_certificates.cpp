#include "server/cluster/link/link_certificates.h"

#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <memory>

#include "server/base/certificate_expiry.h"
#include "server/base/memory/free_with.h"
#include "server/cluster/link/link_settings.h"

namespace pulsegate {

namespace {

using FoundCa = std::unique_ptr<X509, FreeWith<X509_free>>;

/// The last certificate that the node itself presents.
X509* last_of_chain(SSL_CTX* context) {
    STACK_OF(X509)* chain = nullptr;
    const bool has_more =
        SSL_CTX_get0_chain_certs(context, &chain) == 1 && chain && sk_X509_num(chain) > 0;
    return has_more ? sk_X509_value(chain, sk_X509_num(chain) - 1)
                    : SSL_CTX_get0_certificate(context);
}

/// Null if no CA in the context's store has signed this certificate.
FoundCa find_issuer(SSL_CTX* context, X509* certificate) {
    const std::unique_ptr<X509_STORE_CTX, FreeWith<X509_STORE_CTX_free>> search(
        X509_STORE_CTX_new());
    X509* issuer = nullptr;
    const bool is_found = search &&
                          X509_STORE_CTX_init(search.get(), SSL_CTX_get_cert_store(context),
                                              certificate, nullptr) == 1 &&
                          X509_STORE_CTX_get1_issuer(&issuer, search.get(), certificate) == 1;
    return is_found ? FoundCa(issuer) : nullptr;
}

}  // namespace

std::vector<CertificateEnd> link_certificates(const LinkSettings& settings, ssl_ctx_st* context) {
    std::vector<CertificateEnd> all;
    if (!SSL_CTX_get0_certificate(context)) return all;
    all.push_back({"link-cert", settings.certificate, first_expiry(context)});
    if (const FoundCa issuer = find_issuer(context, last_of_chain(context)))
        all.push_back({"link-ca", settings.authorities, expiry_of(issuer.get())});
    return all;
}

}  // namespace pulsegate
