#pragma once

#include <sys/types.h>

#include <string>

#include "server/base/files/unique_fd.h"
#include "server/handover/channel.h"

namespace pulsegate {

/// The new process from the viewpoint of the old one: another program, started with the same
/// arguments. It ends with this object at the latest.
class Successor {
public:
    /// Starts the program. `arguments` ends with a null pointer. Throws HandoverError.
    Successor(const std::string& program, char** arguments);
    ~Successor();
    Successor(const Successor&) = delete;
    Successor& operator=(const Successor&) = delete;

    HandoverChannel& channel() { return channel_; }
    pid_t process() const { return process_; }

    /// Kills the process if it still exists, and waits for its end.
    void end();

private:
    HandoverChannel channel_;
    pid_t process_ = -1;
    UniqueFd handle_{};  ///< refers to the process, which is not a child of this one
};

/// True if no thread of the process runs any more, as a pidfd says it. Nobody may have reaped it.
bool has_ended(pid_t process);

/// An environment variable of the new process: the descriptor of its end of the channel.
inline constexpr const char* handover_variable = "PULSEGATE_HANDOVER";

}  // namespace pulsegate
