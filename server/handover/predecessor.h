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

/// The process that this one takes over from, as this one sees it. Each step waits for the old
/// process; docs/upgrade.md has them in order. All throw HandoverError when it has ended or does
/// not go on: then this process is to end, and has changed nothing.
class Predecessor {
public:
    /// Null if this process was not started to take over. To be called first of all.
    static std::unique_ptr<Predecessor> find();

    explicit Predecessor(UniqueFd socket) : channel_(std::move(socket)) {}

    /// Tells it why this process can't take over.
    void refuse(const std::string& why);
    /// The settings are right: it may stand still. Returns what the server is made with.
    Inheritance await_inheritance();
    /// Takes a client with its state. False: it is closed.
    using Adopt = std::function<bool(UniqueFd socket, std::string_view state)>;
    /// Takes some events of users. False: they can't be read.
    using AdoptHistory = std::function<bool(std::string_view state)>;
    /// Has all clients adopted, in a thread that ends, calls `finish` there, and waits until this
    /// process is to serve. `divides_rooms`: see DataStore.
    Go take_clients(const Adopt& adopt, const AdoptHistory& adopt_history,
                    const std::function<void()>& finish, bool divides_rooms);
    /// From here on it is silent for good.
    void tell_serving();

private:
    HandoverChannel channel_;
};

}  // namespace pulsegate
