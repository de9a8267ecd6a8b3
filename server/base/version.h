#pragma once

namespace pulsegate {

/// The release, such as "0.1.0". A program built from another commit adds the commit
/// ("0.1.0+1a2b3c4"), and one built from changed files adds ".changed". The build writes it.
const char* program_version();

}  // namespace pulsegate
