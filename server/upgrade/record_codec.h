#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/upgrade/client_record.h"

namespace pulsegate {

/// A client's record as bytes. Each field has a tag and a length, so that a version of the gateway
/// before or after this one can read it: what it does not know it passes over, if it may, or it
/// refuses the record. They hold secrets: who has them wipes them.
std::string encode(const ClientRecord& record);

/// Nothing: the bytes are damaged, or of a version that says what this one does not understand.
std::optional<ClientRecord> decode(std::string_view bytes);

/// The name of the user, of bytes that `decode` may refuse; nothing if they are damaged.
std::optional<std::string> user_of_record(std::string_view bytes);

/// Fields, as they lie between the beginning and the end of a record.
std::string sealed_record(std::string_view fields);

}  // namespace pulsegate
