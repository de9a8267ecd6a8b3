#pragma once

namespace pulsegate::torture {

/// `pulsegate torture [OPTION]... -- COMMAND...`: what the broker that the command starts loses
/// when it is killed. `argv[0]` is the command's own name. Returns the exit status.
int torture_command(int argc, const char* const* argv);

}  // namespace pulsegate::torture
