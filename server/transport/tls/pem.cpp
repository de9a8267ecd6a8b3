#include "server/transport/tls/pem.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>
#include <string_view>

#include "server/base/memory/free_with.h"
#include "server/base/text/lines.h"

namespace pulsegate {

namespace {

using PemReader = std::unique_ptr<BIO, FreeWith<BIO_free>>;

/// OpenSSL would overlook an object right after a byte order mark.
PemReader reader_of(std::string_view pem) {
    pem = without_byte_order_mark(pem);
    return PemReader(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

using Certificate = std::unique_ptr<X509, FreeWith<X509_free>>;

/// True if the last error only means that there are no more objects.
bool is_at_end() {
    const auto error = ERR_peek_last_error();
    if (ERR_GET_LIB(error) != ERR_LIB_PEM || ERR_GET_REASON(error) != PEM_R_NO_START_LINE)
        return false;
    ERR_clear_error();
    return true;
}

void free_all(STACK_OF(X509_INFO) * all) { sk_X509_INFO_pop_free(all, X509_INFO_free); }
using Infos = std::unique_ptr<STACK_OF(X509_INFO), FreeWith<free_all>>;

/// All certificates and lists.
Infos read_all(std::string_view pem) {
    return Infos(PEM_X509_INFO_read_bio(reader_of(pem).get(), nullptr, nullptr, nullptr));
}

}  // namespace

bool use_certificates(SSL_CTX* context, std::string_view pem) {
    const PemReader reader = reader_of(pem);
    const Certificate own(PEM_read_bio_X509_AUX(reader.get(), nullptr, nullptr, nullptr));
    if (!own || SSL_CTX_use_certificate(context, own.get()) != 1) return false;
    while (Certificate next{PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)})
        if (SSL_CTX_add1_chain_cert(context, next.get()) != 1) return false;
    return is_at_end();
}

bool use_private_key(SSL_CTX* context, std::string_view pem) {
    const PemReader reader = reader_of(pem);
    const std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>> key(
        PEM_read_bio_PrivateKey(reader.get(), nullptr, nullptr, nullptr));
    return key && SSL_CTX_use_PrivateKey(context, key.get()) == 1;
}

bool trust_authorities(SSL_CTX* context, std::string_view pem) {
    const Infos all = read_all(pem);
    int found = 0;
    X509_STORE* const store = SSL_CTX_get_cert_store(context);
    for (int i = 0; all && i < sk_X509_INFO_num(all.get()); ++i) {
        const X509_INFO& one = *sk_X509_INFO_value(all.get(), i);
        if (one.crl && X509_STORE_add_crl(store, one.crl) != 1) return false;
        if (!one.x509) continue;
        if (X509_STORE_add_cert(store, one.x509) != 1 ||
            SSL_CTX_add_client_CA(context, one.x509) != 1)
            return false;
        ++found;
    }
    return found > 0;
}

bool use_revocations(SSL_CTX* context, std::string_view pem) {
    const Infos all = read_all(pem);
    int found = 0;
    for (int i = 0; all && i < sk_X509_INFO_num(all.get()); ++i) {
        X509_CRL* const list = sk_X509_INFO_value(all.get(), i)->crl;
        if (!list) continue;
        if (X509_STORE_add_crl(SSL_CTX_get_cert_store(context), list) != 1) return false;
        ++found;
    }
    return found > 0;
}

}  // namespace pulsegate
