#include "server/login/takeovers.h"

#include "server/base/log.h"
#include "server/session/life/logins.h"
#include "server/session/state/session.h"
#include "server/transport/connections/connection.h"

namespace pulsegate {

/// The session of the client, if it has a connection; null otherwise.
const Session* Takeovers::connected(std::string_view user, std::string_view client) const {
    const Session* const session = logins_.find(user, client);
    return session && session->link && !session->link->is_lost() ? session : nullptr;
}

Millis Takeovers::pause(std::string_view user, std::string_view client, const Connection& newcomer,
                        Millis now) {
    const Session* const rival = connected(user, client);
    if (!rival || rival->link->is_cut_off()) return 0;
    const auto time = client_limits_.pause_before_takeover(user, client, now);
    if (time == 0) return 0;
    counters_.count(Limit::duel_takeovers);
    log_limited(spdlog::level::warn,
                "{}: taken over again and again, now by {}: two devices seem to use this client "
                "id. The new connection must wait for {} ms",
                rival->logged(), newcomer.peer(), time);
    return time;
}

/// A connection that is cut off may be alive, too.
bool Takeovers::meets_rival(std::string_view user, std::string_view client,
                            std::optional<Rival>& rival) const {
    const Session* const session = connected(user, client);
    if (!session) return false;
    const Rival now{session->link, session->since};
    if (now == rival) return false;
    rival = now;
    return true;
}

}  // namespace pulsegate
