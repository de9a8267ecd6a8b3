// Throws bytes at the readers of a client's state, and of a gateway's, which another process passes
// on in an upgrade.

#include <cstdint>
#include <string>

#include "server/upgrade/gateway_record.h"
#include "server/upgrade/record_codec.h"
#include "server/upgrade/record_fields.h"
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

/// The same of what is not a client's.
void check_gateway_fields(const char* beginning, std::string_view fields, const auto& decode) {
    std::string bytes = beginning;
    bytes += fields;
    append_checksum(bytes);
    const auto record = decode(bytes);
    if (!record) return;
    const std::string again = encode(*record);
    require(decode(again) == record, "a gateway's record comes back as it was");
    require(encode(*decode(again)) == again, "a gateway's record has one text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes = fuzzed_text(data, size);
    check_fields(bytes);
    check_gateway_fields("PGG1", bytes, decode_gateway);
    check_gateway_fields("PGH1", bytes, decode_history);
    if (const auto record = decode(bytes))
        require(decode(encode(*record)) == record, "a whole record comes back as it was");
    return 0;
}
