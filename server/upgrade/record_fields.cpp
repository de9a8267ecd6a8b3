#include "server/upgrade/record_fields.h"

#include "server/base/hash.h"

namespace pulsegate {

namespace {

constexpr std::size_t checksum_size = 8;

}  // namespace

void append_checksum(std::string& out) {
    const auto checksum = stable_hash(out);
    out.append(checksum_size, '\0');
    put_number<checksum_size>(out, out.size() - checksum_size, checksum);
}

std::optional<std::string_view> fields_of(std::string_view beginning, std::string_view bytes) {
    if (!bytes.starts_with(beginning) || bytes.size() < beginning.size() + checksum_size)
        return std::nullopt;
    const auto checked = bytes.substr(0, bytes.size() - checksum_size);
    if (number_of(bytes.substr(checked.size())) != stable_hash(checked)) return std::nullopt;
    return checked.substr(beginning.size());
}

}  // namespace pulsegate
