#pragma once

namespace pulsegate {

/// `pulsegate ctl`: asks a running gateway, or makes it do something. `argv` begins with the name
/// of the command. Returns the exit status, a CtlStatus.
int ctl_command(int argc, const char* const* argv);

}  // namespace pulsegate
