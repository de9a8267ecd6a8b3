#include "tests/support/self_signed.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>
#include <memory>

namespace pulsegate {

namespace {

struct CertificateDeleter {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(std::FILE* file) const { std::fclose(file); }
};
template <class T>
using OwnedPart = std::unique_ptr<T, CertificateDeleter>;

}  // namespace

SelfSigned::SelfSigned() {
    const OwnedPart<EVP_PKEY> pair(EVP_RSA_gen(2048));
    const OwnedPart<X509> signed_by_itself(X509_new());
    X509* const made = signed_by_itself.get();
    ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
    X509_gmtime_adj(X509_getm_notBefore(made), -60);
    X509_gmtime_adj(X509_getm_notAfter(made), 3600);
    X509_set_pubkey(made, pair.get());
    X509_NAME* const name = X509_get_subject_name(made);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    X509_set_issuer_name(made, name);
    X509_sign(made, pair.get(), EVP_sha256());
    PEM_write_X509(OwnedPart<std::FILE>(std::fopen(certificate.c_str(), "w")).get(), made);
    PEM_write_PrivateKey(OwnedPart<std::FILE>(std::fopen(key.c_str(), "w")).get(), pair.get(),
                         nullptr, nullptr, 0, nullptr, nullptr);
    ::chmod(key.c_str(), 0600);
}

}  // namespace pulsegate
