#pragma once

namespace pulsegate {

/// `pulsegate passwd [--create] [--delete] FILE USER`: keeps a password file. `argv[0]` is the
/// command's own name. Asks twice on a terminal, without showing what is typed; otherwise the
/// password is the one line of standard input. Returns the exit status.
int passwd_command(int argc, const char* const* argv);

}  // namespace pulsegate
