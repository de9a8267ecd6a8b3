#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

#include "loadgen/kill/message.h"

using namespace pulsegate::kill;

TEST_CASE("kill: a payload names its message, and others name none") {
    constexpr std::uint64_t run = 0x19b0c;
    for (const Kind kind : all_kinds) {
        const Message message{{kind, 12, 65535}, 4'000'000'000};
        const auto payload = payload_of(message, run);
        CHECK(read_payload(payload, run) == message);
        CHECK_FALSE(read_payload(payload, run + 1));
        CHECK_FALSE(read_payload(payload + ".", run));
        for (const std::size_t at : {std::size_t{0}, std::size_t{31}, payload.size() - 1}) {
            auto changed = payload;
            changed[at] ^= 1;
            CHECK_FALSE(read_payload(changed, run));
            CHECK_FALSE(read_payload(payload.substr(0, at), run));
        }
    }
    CHECK_FALSE(read_payload("", run));
}
