#include "server/auth/passwords/argon2id.h"

#include <argon2.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>

#include "server/auth/base64.h"

namespace pulsegate {

namespace {

constexpr std::string_view argon2_kind = "$argon2id$v=19$";

// What the reference implementation takes, and what a line of a file may reasonably have.
constexpr std::size_t shortest_salt = 8;
constexpr std::size_t shortest_hash = 16;
constexpr std::size_t longest_field = 64;

/// Removes `name` and a number from the front of the text.
bool take_number(std::string_view& text, std::string_view name, std::uint32_t& number) {
    if (!text.starts_with(name)) return false;
    const char* const begin = text.data() + name.size();
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
}

std::optional<std::string> from_unpadded(std::string_view text) {
    std::string padded(text);
    padded.append((4 - padded.size() % 4) % 4, '=');
    return text.ends_with('=') ? std::nullopt : from_base64(padded);
}

std::string to_unpadded(std::string_view bytes) {
    std::string text = to_base64(bytes);
    text.erase(text.find_last_not_of('=') + 1);
    return text;
}

bool is_computable(const Argon2Cost& cost) {
    return cost.passes >= 1 && cost.lanes >= 1 && cost.lanes <= 255 &&
           cost.memory >= 8 * cost.lanes;
}

}  // namespace

Argon2Hash parse_argon2(std::string_view text) {
    const auto fail = [](const char* why) { return std::runtime_error(why); };
    if (!text.starts_with(argon2_kind))
        throw fail("is hashed with a variant of Argon2 other than Argon2id, version 19");
    text.remove_prefix(argon2_kind.size());

    Argon2Hash hashed;
    Argon2Cost& cost = hashed.cost;
    const bool complete = take_number(text, "m=", cost.memory) &&
                          take_number(text, ",t=", cost.passes) &&
                          take_number(text, ",p=", cost.lanes) && text.starts_with('$');
    if (!complete || !is_computable(cost)) throw fail("has no valid m, t and p of Argon2");
    if (cost.memory > most_argon2_memory)
        throw fail("takes more than 256 MiB: its m is above 262144");
    if (cost.work() > most_argon2_work)
        throw fail("takes too long: its m times t is above 10000000");
    text.remove_prefix(1);

    const auto middle = text.find('$');
    if (middle == text.npos) throw fail("has no hash");
    const auto salt = from_unpadded(text.substr(0, middle));
    const auto hash = from_unpadded(text.substr(middle + 1));
    if (!salt || salt->size() < shortest_salt || salt->size() > longest_field)
        throw fail("has no salt of 8 to 64 bytes in base64 without padding");
    if (!hash || hash->size() < shortest_hash || hash->size() > longest_field)
        throw fail("has no hash of 16 to 64 bytes in base64 without padding");
    hashed.salt = *salt;
    hashed.hash = *hash;
    return hashed;
}

std::optional<Argon2Cost> difference(const Argon2Cost& costly, const Argon2Cost& own) {
    const auto work = costly.work() - std::min(costly.work(), own.work());
    const auto memory = static_cast<std::uint32_t>(work / costly.passes);
    const auto least = 8 * costly.lanes;  // RFC 9106, section 3.1
    if (memory < least) return std::nullopt;
    return Argon2Cost{memory, costly.passes, costly.lanes};
}

std::string to_text(const Argon2Hash& hashed) {
    const auto& [cost, salt, hash] = hashed;
    return fmt::format("{}m={},t={},p={}${}${}", argon2_kind, cost.memory, cost.passes, cost.lanes,
                       to_unpadded(salt), to_unpadded(hash));
}

std::string argon2id(std::string_view password, std::string_view salt, const Argon2Cost& cost,
                     std::size_t size) {
    const auto bytes = [](std::string_view text) {  // read only, whatever the type says
        return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
    };
    std::string hash(size, '\0');
    argon2_context context{};
    context.out = bytes(hash);
    context.outlen = static_cast<std::uint32_t>(size);
    context.pwd = bytes(password);
    context.pwdlen = static_cast<std::uint32_t>(password.size());
    context.salt = bytes(salt);
    context.saltlen = static_cast<std::uint32_t>(salt.size());
    context.t_cost = cost.passes;
    context.m_cost = cost.memory;
    context.lanes = cost.lanes;
    context.threads = 1;  // the thread that checks: no others are started
    context.flags = ARGON2_DEFAULT_FLAGS;
    context.version = ARGON2_VERSION_13;
    return argon2id_ctx(&context) == ARGON2_OK ? hash : std::string();
}

}  // namespace pulsegate
