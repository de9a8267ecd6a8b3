#include "loadgen/kill/rooms.h"

#include <fmt/format.h>

#include <stdexcept>

#include "loadgen/net/http.h"
#include "loadgen/units.h"

namespace pulsegate::kill {

void fill_rooms(const Scene& scene) {
    for (std::uint16_t number = 0; number < scene.audience.all_receivers(); ++number) {
        const auto target =
            fmt::format("/api/v1/rooms/{}/members", room_of_receiver(number, scene.run));
        const auto body = fmt::format(R"({{"add":["{}"]}})", user_of_receiver(number, scene.run));
        const auto answer = load::ask({.url = scene.http + target, .body = body});
        if (answer.status != 200)
            throw std::runtime_error(fmt::format("--http: {} was answered with status {}: {:.80}",
                                                 target, answer.status,
                                                 load::printable(answer.body)));
    }
}

}  // namespace pulsegate::kill
