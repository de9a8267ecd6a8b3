#include "loadgen/lab/token.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <fstream>
#include <stdexcept>

namespace pulsegate::load {

std::string read_token(const std::string& file) {
    constexpr std::size_t shortest = 16, longest = 200;
    const auto refuse = [&](const char* why) {
        return std::runtime_error(fmt::format(
            "--token-file '{}': {}; make one with 'head -c 24 /dev/urandom | base64 > FILE', the "
            "same for all machines",
            file, why));
    };
    std::ifstream in(file);
    std::string token;
    if (!(in >> token)) throw refuse("no token can be read");
    if (token.size() < shortest || token.size() > longest)
        throw refuse("a token has 16 to 200 characters");
    return token;
}

bool same_token(std::string_view shown, std::string_view right) {
    return shown.size() == right.size() &&
           CRYPTO_memcmp(shown.data(), right.data(), right.size()) == 0;
}

}  // namespace pulsegate::load
