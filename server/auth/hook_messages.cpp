#include "server/auth/hook_messages.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "server/auth/json_claims.h"

namespace pulsegate {

namespace json = boost::json;

namespace {

AuthResult denial(bool guessed) {
    return {.reason = Reason::bad_user_name_or_password,
            .why = "the auth-hook denies it",
            .guessed = guessed};
}

/// Reads the members that go with `allow: true`. Returns their mistake, or "".
std::string read_permission(const json::object& answer, AuthResult& result) {
    if (const auto* user = answer.if_contains("user")) {
        if (!user->is_string()) return "its user is not a string";
        if (!valid_user(text_of(*user))) return "its user can't be an MQTT username";
        result.user = text_of(*user);
    }
    if (const auto* expires = answer.if_contains("expires")) {
        result.expiry = seconds_of(*expires);
        if (!result.expiry) return "its expires is not a time; it is in seconds since 1970";
    }
    if (const auto* acl = answer.if_contains("acl")) {
        AccessRules rules;
        if (auto wrong = read_rules(*acl, rules); !wrong.empty()) return wrong;
        result.rules = std::make_shared<const AccessRules>(std::move(rules));
    }
    return {};
}

}  // namespace

std::string hook_question(const Credentials& credentials) {
    return json::serialize(json::object{{"user", credentials.user},
                                        {"password", credentials.password},
                                        {"client", credentials.client},
                                        {"address", credentials.address}});
}

std::variant<AuthResult, HookFailure> read_hook_answer(unsigned status, std::string_view body,
                                                       std::int64_t now) {
    // The backend may refuse the gateway's token rather than the client, so this counts for no ban.
    if (status == 401 || status == 403) return denial(false);
    if (status != 200) return HookFailure{fmt::format("it answered with status {}", status)};
    if (body.size() > longest_hook_answer) return HookFailure{"its answer is too long"};
    const auto answer = read_object(body);
    if (!answer) return HookFailure{"its answer is not a JSON object, or has a member twice"};
    const auto* allow = answer->if_contains("allow");
    if (!allow) return HookFailure{"its answer has no allow"};
    if (!allow->is_bool()) return HookFailure{"its allow is neither true nor false"};
    if (!allow->get_bool()) return denial(true);

    AuthResult result;
    if (auto wrong = read_permission(*answer, result); !wrong.empty())
        return HookFailure{std::move(wrong)};
    if (result.expiry && *result.expiry <= now)
        return AuthResult{.reason = Reason::bad_user_name_or_password,
                          .why = "the auth-hook allows it until a time that has passed"};
    return result;
}

}  // namespace pulsegate
