#pragma once

namespace pulsegate {

/// `pulsegate backup FILE`: asks a running gateway over its HTTP API to back up its store, and
/// waits for the end. `argv[0]` is the command's own name. Returns the exit status.
int backup_command(int argc, const char* const* argv);

}  // namespace pulsegate
