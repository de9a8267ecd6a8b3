#include "server/session/terms/logged_client.h"

#include "server/base/log.h"

namespace pulsegate {

std::string LoggedClient::from() const { return peer.empty() ? link->peer() : std::string(peer); }

void LoggedClient::tell(LogFields& fields) const {
    fields.client = client;
    fields.user = user;
    if (link) fields.address = from();
}

}  // namespace pulsegate

fmt::format_context::iterator fmt::formatter<pulsegate::LoggedClient>::format(
    const pulsegate::LoggedClient& logged, format_context& context) const {
    auto out = context.out();
    if (logged.link) out = fmt::format_to(out, "{} ", logged.from());
    return fmt::format_to(out, "client {} of user {}", pulsegate::in_quotes(logged.client),
                          pulsegate::in_quotes(logged.user));
}
