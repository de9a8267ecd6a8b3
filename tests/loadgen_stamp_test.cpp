#include <doctest/doctest.h>

#include "loadgen/stamp.h"

using namespace pulsegate;
using namespace pulsegate::load;

TEST_CASE("a stamp comes back as it was written, in a payload of the size asked for") {
    const Stamp stamp{0xfedcba9876543210, 1'234'567, Time(Duration(987654321)), 14'999, 7};
    Buffer payload;
    for (const std::size_t size : {Stamp::size, std::size_t{64}, std::size_t{1000}}) {
        write(stamp, size, payload);
        REQUIRE(payload.size() == size);
        const auto read = read_stamp(as_bytes(payload));
        REQUIRE(read);
        CHECK(read->run == stamp.run);
        CHECK(read->sequence == stamp.sequence);
        CHECK(read->planned == stamp.planned);
        CHECK(read->sender == stamp.sender);
        CHECK(read->receiver == stamp.receiver);
    }
}

TEST_CASE("a payload that is short, damaged or not ours has no stamp") {
    CHECK_FALSE(read_stamp(as_bytes("")));
    CHECK_FALSE(read_stamp(as_bytes("0123456789012345678901234567890")));
    Buffer payload;
    write(Stamp{}, 64, payload);
    payload[50] = '!';
    CHECK_FALSE(read_stamp(as_bytes(payload)));
}
