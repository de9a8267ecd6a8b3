// The keys that tokens are verified by: which one is asked, and which files are refused.
#include <doctest/doctest.h>
#include <openssl/evp.h>
#include <sys/stat.h>

#include <cstddef>
#include <string>

#include "server/auth/jwt.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/token_gate.h"
#include "tests/support/tokens.h"

using namespace pulsegate;

namespace {

/// What is said about a key file that can't be used.
std::string trouble_with_secret(const std::string& path) {
    JwtSettings settings;
    settings.secret_files = {path};
    return complaint([&] { JwtVerifier verifier(settings); });
}
std::string trouble_with_key(const std::string& path) {
    JwtSettings settings;
    settings.public_key_files = {path};
    return complaint([&] { JwtVerifier verifier(settings); });
}

}  // namespace

TEST_CASE("the key that the token names checks it, or all keys that fit") {
    TokenGate gate;
    gate.with_key("2025.pem", rsa().public_pem())
        .with_key("2026.pem", other_rsa().public_pem())
        .with_secret("2027");
    const auto header = [](const std::string& kid) {
        return R"({"alg":"RS256","kid":")" + kid + "\"}";
    };
    CHECK(gate.ask(signed_by(other_rsa(), R"({"alg":"RS256"})")) == "alice");
    CHECK(gate.ask(signed_by(other_rsa(), header("2026.pem"))) == "alice");
    CHECK(gate.ask(signed_by(other_rsa(), header("2026"))) == "alice");
    CHECK(gate.ask(signed_by(other_rsa(), header("2025"))) == "!its signature is wrong");
    CHECK(gate.ask(signed_by(other_rsa(), header("2027"))) == "!no key matches its alg and kid");
    CHECK(gate.ask(signed_by(other_rsa(), header("../2026.pem"))) == "alice");
    CHECK(gate.ask(signed_by(other_rsa(), header(""))) == "alice");
}

TEST_CASE("without a key every token is refused") {
    CHECK(TokenGate().ask(hs256(usual_claims)) == "!no key matches its alg and kid");
}

TEST_CASE("a secret may end with a line break that is not part of it, unless it is plain bytes") {
    TokenGate gate;
    gate.with_secret("secret", secret + "\n");
    CHECK(gate.ask(hs256(usual_claims)) == "alice");
    TokenGate windows;
    windows.with_secret("secret", secret + "\r\n");
    CHECK(windows.ask(hs256(usual_claims)) == "alice");
    TokenGate marked;
    marked.with_secret("secret", "\xEF\xBB\xBF" + secret + "\r\n");
    CHECK(marked.ask(hs256(usual_claims)) == "alice");
    for (const std::string& bytes :
         {std::string(31, '\x80') + '\n', "\xEF\xBB\xBF" + std::string(31, '\x80') + '\n'}) {
        TokenGate binary;
        binary.with_secret("secret", bytes);
        CHECK(binary.ask(hs256(usual_claims, R"({"alg":"HS256"})", bytes)) == "alice");
    }
}

TEST_CASE("a key that can't be used is named with the remedy") {
    const TemporaryFolder folder;
    const auto as_secret = [&](const std::string& text) {
        return trouble_with_secret(folder.write("key", text));
    };
    const auto as_key = [&](const std::string& text) {
        return trouble_with_key(folder.write("key", text));
    };
    const auto says = [&](const std::string& what, const std::string& remedy) {
        CAPTURE(what);
        CHECK(what.starts_with(folder.path("key") + ": "));
        CHECK(what.find(remedy) != std::string::npos);
    };
    says(as_secret(std::string(31, 'x')), "openssl rand -base64 48");
    says(as_secret(std::string(31, 'x') + "\n"), "openssl rand -base64 48");
    says(as_secret(""), "openssl rand -base64 48");
    CHECK(as_secret(std::string(32, 'x')).empty());
    says(as_secret(rsa().public_pem()), "set it as a public key");
    says(as_secret(rsa().private_pem()), "set it as a public key");

    says(as_key(rsa().private_pem()), "-pubout");
    says(as_key("-----BEGIN CERTIFICATE-----\n"), "openssl x509 -in");
    says(as_key("-----BEGIN RSA PUBLIC KEY-----\n"), "openssl rsa -in");
    says(as_key(""), "no public key in PEM");
    says(as_key("-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n"),
         "no public key in PEM");
    says(as_key(ec("P-384").public_pem()), "not on the curve P-256");
    says(as_key(ec("secp256k1").public_pem()), "not on the curve P-256");
    says(as_key(Signer(EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", std::size_t{1024})).public_pem()),
         "2048 bits");
    says(as_key(Signer(EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519")).public_pem()),
         "use RSA, EC P-256 or Ed25519");
    CHECK(trouble_with_secret(folder.path("none")).find("none: can't be read") !=
          std::string::npos);
    CHECK(trouble_with_key(folder.path("none")).find("none: can't be read") != std::string::npos);
}

TEST_CASE("a secret that others may read is warned of, a public key is not") {
    TokenGate gate;
    gate.with_secret().with_key("rsa.pem", rsa().public_pem());
    CHECK(JwtVerifier(gate.settings).warnings().empty());
    ::chmod(gate.settings.secret_files[0].c_str(), 0644);
    ::chmod(gate.settings.public_key_files[0].c_str(), 0644);
    CHECK(JwtVerifier(gate.settings).warnings().size() == 1);
}
