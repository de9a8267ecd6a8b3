#include "server/session/requests/authorizations.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace pulsegate {

void Authorizations::grant(Session& session, const AuthResult& result, Millis now) {
    thread_.assert_here();
    session.authorization.reset();
    session.password_line = result.password_line;
    if (!result.rules && !result.expiry && !result.token_issued) return;
    session.authorization = std::make_unique<Authorization>(session);
    session.authorization->rules = result.rules;
    session.authorization->expiry = result.expiry;
    session.authorization->token_issued = result.token_issued;
    if (!result.expiry) return;
    constexpr std::int64_t ten_years = 3650ll * 86'400;
    const auto left = std::clamp<std::int64_t>(*result.expiry - unix_now(), 0, ten_years);
    wheel_.schedule(*session.authorization, tick_after(now + left * 1000));
}

bool Authorizations::expire(Tick now) {
    constexpr std::size_t clients_a_turn = 256;  // all tokens may have the same expiry
    constexpr std::size_t moves_a_turn = 16'384;
    thread_.assert_here();
    return wheel_.advance(
        now,
        [](StackedWheel::Node& node) {
            static_cast<Authorization&>(node).session.disconnect(Reason::maximum_connect_time,
                                                                 "its authorization has expired");
        },
        clients_a_turn, moves_a_turn);
}

}  // namespace pulsegate
