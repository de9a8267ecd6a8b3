#pragma once

namespace pulsegate {

/// The release, such as "0.1.0". If the program was built from another commit, the commit follows,
/// such as "0.1.0+1a2b3c4", and ".changed" if files were changed. The build writes it.
const char* program_version();

}  // namespace pulsegate
