#include "server/redis/redis_remedy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace pulsegate {

namespace {

struct Remedy {
    std::string_view beginning;  ///< of the error
    std::string_view remedy;
};

constexpr std::array remedies{
    Remedy{"WRONGPASS",
           "check the password in cluster-password-file, and the user, who stands before the host: "
           "redis://USER@HOST"},
    Remedy{"ERR AUTH <password> called without any password",
           "leave cluster-password-file out, or set a password in Redis (requirepass)"},
    Remedy{"NOAUTH", "name a file with the password in cluster-password-file"},
    Remedy{
        "DENIED",
        "set a password in Redis (requirepass), and name a file with it in cluster-password-file"},
    Remedy{"LOADING", "wait until it has read its data"},
    Remedy{"MASTERDOWN", "name the primary in cluster"},
    Remedy{"READONLY", "name the primary in cluster"},
    Remedy{"MISCONF", "look into its log"},
    Remedy{"OOM", "raise its maxmemory"},
    Remedy{"NOREPLICAS", "connect as many replicas as its min-replicas-to-write asks for"},
    Remedy{"ERR max number of clients reached", "raise its maxclients"},
};

constexpr std::size_t longest_message = 300;

/// The command in "NOPERM this user has no permissions to run the 'config|get' command".
std::string_view forbidden_command(std::string_view error) {
    const auto from = error.find('\'');
    const auto to = error.find("' command");
    if (from == std::string_view::npos || to == std::string_view::npos || to <= from) return "";
    return error.substr(from + 1, to - from - 1);
}

std::string remedy_for_permission(std::string_view error) {
    const auto command = forbidden_command(error);
    if (!command.empty()) return fmt::format("allow it: ACL SETUSER USER +{}", command);
    return "allow the cluster's keys: ACL SETUSER USER ~{p*}* ~{pg}*";
}

/// Behind it, the protected mode tells a page.
std::string first_sentence(const RedisReply& error) {
    const std::string text = error.text.substr(0, longest_message);
    return error.is_error("DENIED") ? "DENIED Redis is running in protected mode" : text;
}

}  // namespace

std::string with_remedy(const RedisReply& error) {
    const std::string said = first_sentence(error);
    if (error.is_error("NOPERM")) return fmt::format("{}; {}", said, remedy_for_permission(said));
    const auto* const found =
        std::find_if(remedies.begin(), remedies.end(),
                     [&](const Remedy& known) { return said.starts_with(known.beginning); });
    return found == remedies.end() ? said : fmt::format("{}; {}", said, found->remedy);
}

}  // namespace pulsegate
