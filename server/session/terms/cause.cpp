#include "server/session/terms/cause.h"

namespace pulsegate {

std::string_view name(Cause cause) {
    switch (cause) {
        case Cause::login: return "login";
        case Cause::logout: return "logout";
        case Cause::timeout: return "timeout";
        case Cause::connection_lost: return "connection_lost";
        case Cause::taken_over: return "taken_over";
        case Cause::kicked: return "kicked";
        case Cause::shutdown: return "shutdown";
        case Cause::node_lost: return "node_lost";
        case Cause::drained: return "drained";
    }
    return "unknown";
}

}  // namespace pulsegate
