#include "loadgen/kill/rooms.h"

#include <fmt/format.h>

#include <stdexcept>

#include "loadgen/net/http.h"
#include "loadgen/units.h"

namespace pulsegate::kill {

void fill_rooms(const RunContext& context) {
    for (std::uint16_t number = 0; number < context.receivers.all_receivers(); ++number) {
        const auto target =
            fmt::format("/api/v1/rooms/{}/members", room_of_receiver(number, context.run));
        const auto body = fmt::format(R"({{"add":["{}"]}})", user_of_receiver(number, context.run));
        const auto answer = load::ask({.url = context.http + target, .body = body});
        if (answer.status != 200)
            throw std::runtime_error(fmt::format("--http: {} was answered with status {}: {:.80}",
                                                 target, answer.status,
                                                 load::printable(answer.body)));
    }
}

}  // namespace pulsegate::kill
