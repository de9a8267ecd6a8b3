#pragma once

namespace pulsegate {

/// `pulsegate passwd [--create] [--delete] FILE USER`: sets or removes a user in a password file.
/// `argv[0]` is the command's own name. Asks twice on a terminal, with the echo off; otherwise the
/// password is the first line of standard input. Returns the exit status.
int passwd_command(int argc, const char* const* argv);

}  // namespace pulsegate
