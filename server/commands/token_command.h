#pragma once

namespace pulsegate {

/// `pulsegate token NAME ROLE`: prints a new token of the HTTP API, and its line for
/// `admin-tokens-file`. `argv[0]` is the command's own name. Returns the exit status.
int token_command(int argc, const char* const* argv);

}  // namespace pulsegate
