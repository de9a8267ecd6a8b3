#include "loadgen/kill/options.h"

#include "loadgen/units.h"

namespace pulsegate::kill {

std::string Options::mqtt_url(std::uint16_t place) const {
    const auto& node = nodes[place];
    return "mqtt://" + show(load::Address{node.host, node.port});
}

std::string Options::http_url(std::uint16_t place) const {
    const auto port = static_cast<std::uint16_t>(http + place);
    return "http://" + show(load::Address{nodes[place].host, port});
}

}  // namespace pulsegate::kill
