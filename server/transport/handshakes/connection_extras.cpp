#include "server/transport/handshakes/connection_extras.h"

namespace pulsegate {

void send_last(int socket, ConnectionExtras* extras, std::string_view bytes) {
    if (extras && extras->channel) return extras->channel->send_last(bytes);
    if (extras && extras->small) return extras->small->end(socket, bytes);
    Buffer out(bytes);
    if (!out.empty()) send_now(socket, extras, out, 0);
    if (extras && extras->tls && !extras->is_handshaking()) SSL_shutdown(extras->tls->ssl());
}

}  // namespace pulsegate
