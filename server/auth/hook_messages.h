#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "server/auth/auth_result.h"
#include "server/auth/credentials.h"

namespace pulsegate {

/// Bytes; a longer answer of the backend is not read.
inline constexpr std::size_t longest_hook_answer = 64 * 1024;

/// The body of the request to the operator's backend, JSON. User, client and password must be
/// UTF-8.
std::string hook_question(const Credentials& credentials);

/// Why the backend's answer can't be used, for the log. Never contains parts of the answer.
struct HookFailure {
    std::string why;
};

/// Whether the backend allows or denies the login. An answer that could be misunderstood is a
/// failure. `now` in seconds since 1970.
///
///     200  {"allow": true | false,
///           "user": "who it is", "acl": ["allow read news/#"], "expires": 1800000000}
///     401, 403: may not
///
/// All but `allow` may be left out. Unknown members are ignored.
[[nodiscard]] std::variant<AuthResult, HookFailure> read_hook_answer(unsigned status,
                                                                     std::string_view body,
                                                                     std::int64_t now);

}  // namespace pulsegate
