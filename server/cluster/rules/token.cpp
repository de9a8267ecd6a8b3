#include "server/cluster/rules/token.h"

#include <charconv>
#include <utility>

namespace pulsegate {

Token parse_token(std::string text) {
    Token token;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, token.epoch);
    if (error == std::errc() && rest != end) {
        token.owner.assign(rest + 1, end);
        token.owner.resize(std::min(token.owner.size(), token.owner.find(':')));
        if (token.owner == "-") token.owner.clear();
    }
    token.text = std::move(text);
    return token;
}

}  // namespace pulsegate
