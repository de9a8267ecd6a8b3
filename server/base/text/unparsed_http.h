#pragma once

#include <cstddef>

namespace pulsegate {

/// The maximum size of a buffer that an HTTP message is read into, before it is parsed. Beast's
/// parser limits neither the extensions of a chunk nor the fields after the last chunk, and reads
/// either to its end first. A header must fit in as well.
inline constexpr std::size_t most_unparsed_http = 128 * 1024;

}  // namespace pulsegate
