#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace pulsegate::kill {

/// The broker: a child in its own process group, which may begin with a script. No process of the
/// group outlives this object, and the child does not outlive this process. There may be a second
/// broker on standby, which takes over when the first one has ended.
class BrokerProcess {
public:
    /// Standard output and error of the broker are appended to `log`.
    BrokerProcess(std::vector<std::string> command, std::string log);
    ~BrokerProcess();
    BrokerProcess(const BrokerProcess&) = delete;
    BrokerProcess& operator=(const BrokerProcess&) = delete;

    /// Makes the standby the broker, or starts a new one if there is no standby. Throws
    /// std::system_error if no more processes are possible.
    void start();

    bool has_standby() const { return standby_ != 0; }

    /// Starts another broker on standby, with this command.
    void stand_by(const std::vector<std::string>& command);

    /// SIGKILL to the whole group; returns when it is gone.
    void kill();
    void kill_standby();

    /// SIGTERM to the group; `ended` reports its end.
    void terminate();

    /// How it ended by itself ("exit status 1"), if it did. Then the rest of the group is killed.
    std::optional<std::string> ended() { return end_of(group_); }
    std::optional<std::string> standby_ended() { return end_of(standby_); }

private:
    static std::optional<std::string> end_of(pid_t& group);
    pid_t spawn(const std::vector<std::string>& command);
    [[noreturn]] void become_broker(const std::vector<std::string>& command, pid_t parent);

    const std::vector<std::string> command_;
    const std::string log_;
    pid_t group_ = 0;    ///< 0: nothing runs
    pid_t standby_ = 0;  ///< likewise
};

}  // namespace pulsegate::kill
