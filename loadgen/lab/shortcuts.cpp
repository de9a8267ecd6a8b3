#include "loadgen/lab/shortcuts.h"

#include <array>

namespace pulsegate::load {

namespace {

constexpr std::array shortcut_table{
    Shortcut{"--clients", "N", "clients", "15000",
             "number of clients; the default is lower if the file limit is", "Load"},
    Shortcut{"--ramp", "RATE", "ramp", "2000/s", "new connections a second", "Load"},
    Shortcut{"--keepalive", "TIME", "keepalive", "20s",
             "keepalive of the clients; who talks pings after 0.75 to 1.0 of it", "Load"},
    Shortcut{"--messages", "RATE|fill", "messages", "fill",
             "messages a second; fill: --packets, less the pings", "Load"},
    Shortcut{"--packets", "RATE", "packets", "3000/s",
             "packets a second that all clients send, to be filled up with messages", "Load"},
    Shortcut{"--silent", "PERCENT", "silent", "5%", "clients that stop sending without closing",
             "Load"},
    Shortcut{"--duration", "TIME", "duration", "45s",
             "from the end of the ramp; extended until the silent clients\ncan be judged", "Load"},
    Shortcut{"--qos", "0|1|2|SHARES", "qos", "0", "QoS of messages, or shares: 0:80% 1:20%",
             "Messages"},
    Shortcut{"--mqtt-version", "3.1.1|5", "version", "3.1.1", "protocol version", "Messages"},
    Shortcut{"--size", "BYTES", "size", "64", "payload of a message, or a range: 64..1024",
             "Messages"},
    Shortcut{"--drain", "TIME", "drain", "5s", "how long to wait at the end for messages under way",
             "Messages"},
    Shortcut{"--limit", "TIME", "limit", "1.5 keepalives",
             "silence after which the server must close; an MQTT 5 Server\nKeep Alive overrides "
             "the default",
             "Checks"},
    Shortcut{"--tolerance", "TIME", "tolerance", "100ms",
             "allowance for delays of the machine, beyond limit and tick", "Checks"},
    Shortcut{"--silent-after", "TIME", "silent-after", "0s",
             "when the first clients fall silent, from the end of the ramp", "Checks"},
    Shortcut{"--silent-over", "TIME", "silent-over", "keepalive/2",
             "time within which clients fall silent, each at a random moment", "Checks"},
    Shortcut{"--storm", "N|PERCENT", "storm", "0",
             "how many clients vanish at once and reconnect at once; the\nothers' latency is "
             "compared with that before",
             "Storm"},
    Shortcut{"--storm-after", "TIME", "storm-after", "10s",
             "quiet time before the storm, from the end of the ramp", "Storm"},
    Shortcut{"--storm-within", "TIME", "storm-within", "60s", "time within which all must be back",
             "Storm"},
    Shortcut{"--storm-factor", "N", "storm-factor", "5",
             "the others' p99 in the storm may be this many times the one\nbefore", "Storm"},
};

}  // namespace

std::span<const Shortcut> shortcuts() { return shortcut_table; }

}  // namespace pulsegate::load
