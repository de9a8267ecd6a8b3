// Throws headers and claims at the check of tokens, and documents at the reader of key sets. The
// first line of an input is the header, the rest the claims; the fuzzer signs them.

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <variant>

#include "server/auth/base64.h"
#include "server/auth/jwk_set.h"
#include "server/auth/jwt.h"
#include "tests/fuzz/promise.h"

namespace {

using namespace pulsegate;

constexpr std::string_view secret = "a secret of thirty-two bytes, or more";
constexpr std::int64_t now = 1'800'000'000;

JwtVerifier verifier() {
    const auto path = std::filesystem::temp_directory_path() /
                      ("pulsegate-jwt-fuzz-" + std::to_string(::getpid()));
    std::ofstream(path) << secret;
    JwtVerifier loaded({.secret_files = {path.string()}});
    std::filesystem::remove(path);
    return loaded;
}

std::string in_base64url(std::string_view bytes) {
    std::string text = to_base64(bytes);
    text.erase(text.find_last_not_of('=') + 1);
    for (char& c : text) c = c == '+' ? '-' : c == '/' ? '_' : c;
    return text;
}

std::string signed_token(std::string_view header, std::string_view claims) {
    const std::string text = in_base64url(header) + '.' + in_base64url(claims);
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), sum, &size);
    return text + '.' + in_base64url(fuzzed_text(sum, size));
}

const JwtClaims* accepted(const std::variant<JwtClaims, JwtRefusal>& result) {
    return std::get_if<JwtClaims>(&result);
}

void check_token(const JwtVerifier& tokens, std::string token) {
    const auto result = tokens.verify(token, now);
    const JwtClaims* const claims = accepted(result);
    if (!claims)
        return require(!std::get<JwtRefusal>(result).why.empty(), "a refusal has a reason");
    require(!claims->user.empty(), "a token that is accepted names a user");
    require(claims->expiry && *claims->expiry > now, "a token that is accepted expires later");
    require(!accepted(tokens.verify(token, *claims->expiry)), "a token ends when it expires");
    if (claims->rules) static_cast<void>(claims->rules->may_publish({claims->user, "c"}, "a/b"));
    for (std::size_t at = token.find('.') + 1; at < token.size(); at += 7) {
        const char before = token[at];
        token[at] = before == 'A' ? 'B' : 'A';
        require(!accepted(tokens.verify(token, now)), "a token that was changed is refused");
        token[at] = before;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const JwtVerifier tokens = verifier();
    const std::string_view text = fuzzed_text(data, size);
    const auto line = std::min(text.find('\n'), text.size());
    const std::string_view claims = text.substr(std::min(line + 1, text.size()));
    check_token(tokens, signed_token(text.substr(0, line), claims));
    require(!accepted(tokens.verify(text, now)), "a token that nobody has signed is refused");

    const JwkReading reading = read_jwk_set(claims);
    require(reading.trouble.empty() == !reading.set.keys.empty(), "a set has a key, or a trouble");
    require(reading.set.keys.size() <= 100, "a set has at most 100 keys");
    if (const auto bytes = from_base64(text))
        require(to_base64(*bytes) == text, "Base64 has one text for the same bytes");
    return 0;
}
