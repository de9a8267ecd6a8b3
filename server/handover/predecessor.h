#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "server/base/files/unique_fd.h"
#include "server/handover/channel.h"
#include "server/handover/inheritance.h"
#include "server/handover/terms.h"

namespace pulsegate {

/// The old process from the viewpoint of the new one. Each step waits for the old process;
/// docs/upgrade.md has the steps in order. All methods throw HandoverError if the old process has
/// ended or does not continue. Then this process must end, and has changed nothing.
class Predecessor {
public:
    /// Null if this process was not started to take over. Call it before anything else.
    static std::unique_ptr<Predecessor> find();

    explicit Predecessor(UniqueFd socket) : channel_(std::move(socket)) {}

    /// Tells it why this process can't take over.
    void refuse(const std::string& why);
    /// The settings are right, so the old process may stop its work. `promises` are the promises of
    /// these settings. Returns the parts with which the server is built.
    Inheritance await_inheritance(Promises promises);
    /// Takes a client with its state. Returns false if the client must be closed.
    using Adopt = std::function<bool(UniqueFd socket, std::string_view state)>;
    /// Takes some events of users. Returns false if they can't be read.
    using AdoptHistory = std::function<bool(std::string_view state)>;
    /// Adopts all clients in a temporary thread, calls `finish` there, and waits until this process
    /// must serve. `divides_rooms`: see DataStore.
    Go take_clients(const Adopt& adopt, const AdoptHistory& adopt_history,
                    const std::function<void()>& finish, bool divides_rooms);
    /// After this, it sends nothing more.
    void tell_serving();

private:
    HandoverChannel channel_;
};

}  // namespace pulsegate
