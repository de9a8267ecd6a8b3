#pragma once

namespace pulsegate {

/// The release, as in "0.1.0", and the commit if the program was built from another one, as in
/// "0.1.0+1a2b3c4"; with ".changed" behind it, from changed files. The build writes it.
const char* program_version();

}  // namespace pulsegate
