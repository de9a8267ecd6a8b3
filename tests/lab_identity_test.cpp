#include <doctest/doctest.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <boost/json.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "loadgen/client/identities.h"
#include "loadgen/client/jwt_signer.h"
#include "tests/support/temporary_folder.h"

namespace pulsegate {

namespace {

using load::Identities;
using load::Identity;
using load::IdentitySettings;
using load::JwtSigner;

struct FreeKey {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using SigningKey = std::unique_ptr<EVP_PKEY, FreeKey>;

/// Writes the key as PEM and returns the name of the file.
std::string written(const TemporaryFolder& folder, const SigningKey& key) {
    const std::string path = folder.path("key.pem");
    std::FILE* file = std::fopen(path.c_str(), "w");
    PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
    return path;
}

std::string from_base64url(std::string text) {
    for (char& each : text) each = each == '-' ? '+' : each == '_' ? '/' : each;
    const std::size_t padding = (4 - text.size() % 4) % 4;
    text.append(padding, '=');
    std::string bytes(text.size() / 4 * 3, '\0');
    EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                    reinterpret_cast<const unsigned char*>(text.data()),
                    static_cast<int>(text.size()));
    return bytes.substr(0, bytes.size() - padding);
}

/// The three parts of a token; the signature is decoded, the others are read as JSON.
struct TokenParts {
    explicit TokenParts(const std::string& token) {
        const auto first = token.find('.');
        const auto last = token.rfind('.');
        REQUIRE(first < last);
        header = boost::json::parse(from_base64url(token.substr(0, first))).as_object();
        claims = boost::json::parse(from_base64url(token.substr(first + 1, last - first - 1)))
                     .as_object();
        text = token.substr(0, last);
        signature = from_base64url(token.substr(last + 1));
    }
    std::string text;
    std::string signature;
    boost::json::object header;
    boost::json::object claims;
};

bool verifies(const SigningKey& key, const std::string& text, const std::string& signature) {
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                          EVP_MD_CTX_free);
    EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get());
    return EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                            signature.size(), reinterpret_cast<const unsigned char*>(text.data()),
                            text.size()) == 1;
}

/// JWT's form of an ECDSA signature as OpenSSL reads it.
std::string in_der(const std::string& pair) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(pair.data());
    const std::unique_ptr<ECDSA_SIG, decltype(&ECDSA_SIG_free)> signature(ECDSA_SIG_new(),
                                                                          ECDSA_SIG_free);
    ECDSA_SIG_set0(signature.get(), BN_bin2bn(bytes, 32, nullptr),
                   BN_bin2bn(bytes + 32, 32, nullptr));
    unsigned char* der = nullptr;
    const int size = i2d_ECDSA_SIG(signature.get(), &der);
    const std::string text(reinterpret_cast<char*>(der), static_cast<std::size_t>(size));
    OPENSSL_free(der);
    return text;
}

std::string hmac(const std::string& secret, const std::string& text) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &size);
    return {reinterpret_cast<char*>(digest), size};
}

constexpr std::chrono::seconds an_hour{3600};

}  // namespace

// -- tokens --

TEST_CASE("a token of HS256 has its claims, and a signature with the text of the secret's file") {
    const TemporaryFolder folder;
    const auto signer = JwtSigner::with_secret(folder.write("secret", "0123456789abcdef\n"));
    const TokenParts token(signer.sign("a \"user\"", "id-1", 1'700'000'000, an_hour));
    CHECK(token.header == boost::json::object{{"alg", "HS256"}, {"typ", "JWT"}});
    CHECK(token.claims == boost::json::object{{"sub", "a \"user\""},
                                              {"jti", "id-1"},
                                              {"iat", 1'700'000'000},
                                              {"exp", 1'700'003'600}});
    CHECK(token.signature == hmac("0123456789abcdef", token.text));
    CHECK(!signer.slow());
}

TEST_CASE("a token of RS256 is accepted by OpenSSL with the public key") {
    const TemporaryFolder folder;
    const SigningKey key(EVP_RSA_gen(2048));
    const auto signer = JwtSigner::with_key(written(folder, key));
    const TokenParts token(signer.sign("me", "1", 1'700'000'000, an_hour));
    CHECK(token.header.at("alg") == "RS256");
    CHECK(verifies(key, token.text, token.signature));
    CHECK(!verifies(key, token.text + "x", token.signature));
}

TEST_CASE("tokens of ES256 are accepted by OpenSSL, and their signatures always have 64 bytes") {
    const TemporaryFolder folder;
    const SigningKey key(EVP_EC_gen("P-256"));
    const auto signer = JwtSigner::with_key(written(folder, key));
    for (int i = 0; i < 300; ++i) {  // every 256th number is one byte shorter
        const TokenParts token(signer.sign("me", std::to_string(i), 1'700'000'000, an_hour));
        CHECK(token.header.at("alg") == "ES256");
        REQUIRE(token.signature.size() == 64);
        REQUIRE(verifies(key, token.text, in_der(token.signature)));
    }
}

TEST_CASE("base64url is that of RFC 4648") {
    CHECK(load::base64url("") == "");
    CHECK(load::base64url("f") == "Zg");
    CHECK(load::base64url("fo") == "Zm8");
    CHECK(load::base64url("foobar") == "Zm9vYmFy");
    CHECK(load::base64url("\xfb\xff\xfe") == "-__-");
}

TEST_CASE("keys that can't sign are told with the file and the reason") {
    const TemporaryFolder folder;
    const auto of_key = [](const std::string& file) {
        return complaint([&] { JwtSigner::with_key(file); });
    };
    CHECK(of_key("/nowhere") == "can't sign tokens with /nowhere: it can't be read");
    const std::string text = folder.write("text", "hello");
    CHECK(of_key(text) == "can't sign tokens with " + text +
                              ": it is not a private key in PEM without a passphrase");
    const SigningKey other_curve(EVP_EC_gen("P-384"));
    CHECK(of_key(written(folder, other_curve)).ends_with("P-256 (ES256) will do"));
    const std::string empty = folder.write("empty", "\n");
    CHECK(complaint([&] { JwtSigner::with_secret(empty); }) ==
          "can't sign tokens with " + empty + ": it is empty");
    CHECK(complaint([&] { JwtSigner::with_secret("/nowhere"); }) ==
          "can't sign tokens with /nowhere: it can't be read");
}

// -- identities --

TEST_CASE("patterns are filled in with the client's number") {
    Identities identities({.client_id = "{n}-of-{n}", .user = "user{n}", .password = "secret"});
    const Identity identity = identities.of(42);
    CHECK(identity.client_id == "42-of-42");
    CHECK(identity.user == "user42");
    CHECK(identity.password == "secret");
}

TEST_CASE("without a user there is neither name nor password") {
    Identities identities(IdentitySettings{});
    const Identity identity = identities.of(42);
    CHECK(identity.client_id == "loadgen-42");
    CHECK(!identity.user);
    CHECK(!identity.password);
    CHECK(identities.user(42).empty());
}

TEST_CASE("users are the lines of a file, which is read again from the front") {
    const TemporaryFolder folder;
    Identities identities({.users_file = folder.write("users", "anna:pw:with:colons\r\n\nbert:")});
    CHECK(identities.of(0).user == "anna");
    CHECK(identities.of(0).password == "pw:with:colons");
    CHECK(identities.of(1).user == "bert");
    CHECK(identities.of(1).password == "");
    CHECK(identities.user(2) == "anna");
}

TEST_CASE("clients that share a user are known by the first of them") {
    const TemporaryFolder folder;
    const Identities file({.users_file = folder.write("users", "anna:1\nbert:2\nanna:3\n")});
    CHECK(file.first_of_user(1) == 1);
    CHECK(file.first_of_user(2) == 0);
    CHECK(file.first_of_user(4) == 1);
    CHECK(Identities({.user = "alice"}).first_of_user(7) == 0);
    CHECK(Identities({.user = "u{n}"}).first_of_user(7) == 7);
    CHECK(Identities(IdentitySettings{}).first_of_user(7) == 7);
}

TEST_CASE("a file of users is checked, and the line is named") {
    const TemporaryFolder folder;
    const auto complaint_about = [&](const std::string& text) {
        const std::string file = folder.write("users", text);
        std::string told = complaint([&] { Identities({.users_file = file}); });
        REQUIRE(told.starts_with(file));
        return told.substr(file.size());
    };
    CHECK(complaint_about("a:b\nnobody\n") == ", line 2: expected NAME:PASSWORD");
    CHECK(complaint_about(":b\n") == ", line 1: expected NAME:PASSWORD");
    CHECK(complaint_about("") == " has no users: expected NAME:PASSWORD");
    CHECK(complaint([] { Identities({.users_file = "/nowhere"}); }) == "can't read /nowhere");
}

TEST_CASE("settings that exclude each other are refused") {
    const auto refusal = [](IdentitySettings settings) {
        return complaint([&] { Identities(std::move(settings)); });
    };
    CHECK(refusal({.users_file = "x", .user = "y"}) ==
          "users are from a file or from a pattern, not from both");
    CHECK(refusal({.user = "u", .jwt_secret_file = "x", .jwt_key_file = "y"}) ==
          "tokens are signed with a secret or with a key, not with both");
    CHECK(refusal({.user = "u", .password = "p", .jwt_secret_file = "x"}).starts_with("passwords"));
    CHECK(refusal({.password = "p"}).starts_with("a password needs a user"));
    CHECK(refusal({.jwt_secret_file = "x"}).starts_with("a password needs a user"));
}

TEST_CASE("a client's token is for its user, and signed anew for each login") {
    const TemporaryFolder folder;
    const std::string file = folder.write("secret", "0123456789abcdef");
    Identities identities({.user = "user{n}", .jwt_secret_file = file});
    const auto now = [] {
        return std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
            .count();
    };
    const auto before = now();
    const TokenParts one(*identities.of(7).password);
    const auto after = now();
    const TokenParts other(*identities.of(7).password);
    CHECK(one.claims.at("sub") == "user7");
    CHECK(one.claims.at("jti") != other.claims.at("jti"));
    const auto issued = one.claims.at("iat").as_int64();
    CHECK(issued >= before);
    CHECK(issued <= after);
}

TEST_CASE("it is known when a client's last token ends") {
    const TemporaryFolder folder;
    const std::string file = folder.write("secret", "0123456789abcdef");
    Identities identities({.user = "user{n}", .jwt_secret_file = file});
    using Clock = std::chrono::steady_clock;
    CHECK(identities.token_ends(7) == Clock::time_point::max());
    (void)identities.of(7);
    const auto left = identities.token_ends(7) - Clock::now();
    CHECK(left > std::chrono::seconds(3590));
    CHECK(left <= std::chrono::seconds(3600));
}

TEST_CASE("tokens that take long to sign are remembered for half of their life") {
    const TemporaryFolder folder;
    const SigningKey key(EVP_EC_gen("P-256"));
    const std::string file = written(folder, key);
    Identities lasting({.user = "user{n}", .jwt_key_file = file});
    CHECK(lasting.of(7).password == lasting.of(7).password);
    CHECK(lasting.of(7).password != lasting.of(8).password);
    Identities short_lived(
        {.user = "user{n}", .jwt_key_file = file, .jwt_life = std::chrono::seconds(0)});
    CHECK(short_lived.of(7).password != short_lived.of(7).password);
}

}  // namespace pulsegate
