#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace pulsegate::kill {

/// The broker: a child in a process group of its own, which may begin with a script. Nothing of the
/// group outlives this object, nor the child this process. Beside it there may be another one that
/// stands by, and takes its place when it has ended.
class BrokerProcess {
public:
    /// Standard output and error of the broker are appended to `log`.
    BrokerProcess(std::vector<std::string> command, std::string log);
    ~BrokerProcess();
    BrokerProcess(const BrokerProcess&) = delete;
    BrokerProcess& operator=(const BrokerProcess&) = delete;

    /// The one that stands by is the broker now, or another one if there is none. Throws
    /// std::system_error if there can be no more processes.
    void start();

    /// Has another one stand by, with this command.
    void stand_by(const std::vector<std::string>& command);

    /// SIGKILL to the whole group; returns when it is gone.
    void kill();

    /// SIGTERM to the group; `ended` says when and how it is gone.
    void terminate();

    /// How it ended by itself ("exit status 1"), if it did; the rest of the group is killed then.
    std::optional<std::string> ended();

private:
    pid_t spawn(const std::vector<std::string>& command);
    [[noreturn]] void become_broker(const std::vector<std::string>& command, pid_t parent);

    const std::vector<std::string> command_;
    const std::string log_;
    pid_t group_ = 0;    ///< 0: nothing runs
    pid_t standby_ = 0;  ///< likewise
};

}  // namespace pulsegate::kill
