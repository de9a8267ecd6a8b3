// Throws bytes at the reader of a client's state, which another process passes on in an upgrade.

#include <cstdint>
#include <string>

#include "server/upgrade/record_codec.h"
#include "tests/fuzz/promise.h"

namespace {

using namespace pulsegate;

/// Fields that a peer has sealed with the right checksum.
void check_fields(std::string_view fields) {
    const std::string bytes = sealed_record(fields);
    const auto user = user_of_record(bytes);
    require(user.has_value(), "a sealed record has a user, perhaps without a name");
    const auto record = decode(bytes);
    if (!record) return;
    const std::string again = encode(*record);
    require(decode(again) == record, "a record comes back as it was");
    require(encode(*decode(again)) == again, "a record has one text");
    require(user_of_record(again) == record->session.user, "a record names its user");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes = fuzzed_text(data, size);
    check_fields(bytes);
    if (const auto record = decode(bytes))
        require(decode(encode(*record)) == record, "a whole record comes back as it was");
    return 0;
}
