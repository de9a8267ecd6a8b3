#include "server/upgrade/record_fields.h"

#include "server/base/hash.h"

namespace pulsegate {

void append_checksum(std::string& out) {
    const auto checksum = stable_hash(out);
    out.append(record_checksum_size, '\0');
    put_number<record_checksum_size>(out, out.size() - record_checksum_size, checksum);
}

std::optional<std::string_view> fields_of(std::string_view beginning, std::string_view bytes) {
    if (!bytes.starts_with(beginning) || bytes.size() < beginning.size() + record_checksum_size)
        return std::nullopt;
    const auto checked = bytes.substr(0, bytes.size() - record_checksum_size);
    if (number_of(bytes.substr(checked.size())) != stable_hash(checked)) return std::nullopt;
    return checked.substr(beginning.size());
}

}  // namespace pulsegate
