#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/upgrade/client_record.h"

namespace pulsegate {

/// Encodes a client's record as bytes. Each field has a tag and a length, so older and newer
/// versions of the gateway can read it: they skip unknown fields that are optional, and otherwise
/// refuse the record. The bytes contain secrets, so wipe them after use.
std::string encode(const ClientRecord& record);

/// Nothing if the bytes are damaged, or come from a version with fields that this one can't ignore.
std::optional<ClientRecord> decode(std::string_view bytes);

/// The user's name, even from bytes that `decode` refuses; nothing if they are damaged.
std::optional<std::string> user_of_record(std::string_view bytes);

/// The fields, without the beginning and the end of a record.
std::string sealed_record(std::string_view fields);

}  // namespace pulsegate
