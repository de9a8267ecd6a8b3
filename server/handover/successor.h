#pragma once

#include <sys/types.h>

#include <string>

#include "server/base/files/unique_fd.h"
#include "server/handover/channel.h"

namespace pulsegate {

/// The process that is to take over, as the old one sees it: another program, started with the same
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

    /// Kills it if it is still there, and waits for that.
    void end();

private:
    HandoverChannel channel_;
    pid_t process_ = -1;
};

/// In the environment of the process that is to take over: the descriptor of its end of the
/// channel.
inline constexpr const char* handover_variable = "PULSEGATE_HANDOVER";

}  // namespace pulsegate
