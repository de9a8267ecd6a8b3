#include "loadgen/lab/shortcuts.h"

#include <array>

namespace pulsegate::load {

namespace {

constexpr std::array shortcut_table{
    Shortcut{"--clients", "N", "clients", "15000",
             "number of clients; by default fewer if the file limit is lower", "Load"},
    Shortcut{"--ramp", "RATE", "ramp", "2000/s", "new connections per second", "Load"},
    Shortcut{"--keepalive", "TIME", "keepalive", "20s",
             "keepalive; clients that are not silent ping after 0.75 to 1.0 of it", "Load"},
    Shortcut{"--messages", "RATE|fill", "messages", "fill",
             "messages per second; fill: --packets minus the pings", "Load"},
    Shortcut{"--packets", "RATE", "packets", "3000/s",
             "packets per second from all clients, including pings; messages fill them up", "Load"},
    Shortcut{"--silent", "PERCENT", "silent", "5%", "clients that stop sending without closing",
             "Load"},
    Shortcut{"--duration", "TIME", "duration", "45s",
             "time from the end of the ramp; extended until the silent\n"
             "clients can be judged",
             "Load"},
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
             "allowance for delays of the machine, in addition to limit and tick", "Checks"},
    Shortcut{"--silent-after", "TIME", "silent-after", "0s",
             "time from the end of the ramp until the first clients fall silent", "Checks"},
    Shortcut{"--silent-over", "TIME", "silent-over", "keepalive/2",
             "time within which clients fall silent, each at a random moment", "Checks"},
    Shortcut{"--storm", "N|PERCENT", "storm", "0",
             "how many clients vanish together and reconnect together; the\n"
             "others' latency is compared with their latency before",
             "Storm"},
    Shortcut{"--storm-after", "TIME", "storm-after", "10s",
             "quiet time from the end of the ramp until the storm", "Storm"},
    Shortcut{"--storm-within", "TIME", "storm-within", "60s",
             "time within which all clients must be back", "Storm"},
    Shortcut{"--storm-factor", "N", "storm-factor", "5",
             "how many times its earlier value the other clients' p99 may\n"
             "reach in the storm",
             "Storm"},
};

}  // namespace

std::span<const Shortcut> shortcuts() { return shortcut_table; }

}  // namespace pulsegate::load
