#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "server/auth/claim.h"
#include "server/auth/verdict.h"

namespace pulsegate {

/// A longer answer of the backend is not read.
inline constexpr std::size_t longest_hook_answer = 64 * 1024;

/// The question to the company's backend, in JSON. User, client and password are UTF-8.
std::string hook_question(const Claim& claim);

/// Why the backend's answer is none, for the log. Never contains anything of it.
struct HookFailure {
    std::string why;
};

/// What the backend says: that the client may come in, or may not. Whatever could be misunderstood
/// is a failure. `now` in seconds since 1970.
///
///     200  {"allow": true | false,
///           "user": "who it is", "acl": ["allow read news/#"], "expires": 1800000000}
///     401, 403: may not
///
/// All but `allow` may be left out. Other members are passed over.
std::variant<Verdict, HookFailure> read_hook_answer(unsigned status, std::string_view body,
                                                    std::int64_t now);

}  // namespace pulsegate
