#pragma once

namespace pulsegate {

/// `pulsegate import DIR --cluster URL`: copies the data of a folder to an empty cluster. `argv[0]`
/// is the command's own name. Returns the exit status.
int import_command(int argc, const char* const* argv);

}  // namespace pulsegate
