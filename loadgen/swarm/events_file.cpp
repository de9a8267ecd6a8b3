#include "loadgen/swarm/events_file.h"

#include <stdexcept>

#include "loadgen/observe/user_presence.h"

namespace pulsegate::load {

namespace {

constexpr Duration read_every = std::chrono::milliseconds(20);

/// The maximum number of lines that are read at a time, so that a server that writes a lot does not
/// delay the clients.
constexpr int most_lines = 1000;

constexpr std::uint32_t observer = UINT32_MAX;

}  // namespace

EventsFile::EventsFile(SwarmState& state, Watchers& watchers) : state_(state), watchers_(watchers) {
    const std::string& name = state.assignment.target.events_file;
    if (name.empty()) return;
    file_.open(name);
    file_.seekg(0, std::ios::end);
    if (!file_) throw std::runtime_error(name + ": can't be read; start the server with --events");
}

void EventsFile::turn(Time now) {
    if (!file_.is_open() || now < next_) return;
    next_ = now + read_every;
    for (int count = 0; count < most_lines; ++count) {
        std::string part;
        std::getline(file_, part);
        line_ += part;
        if (file_.eof()) return file_.clear();  // the rest of the line is yet to be written
        read_line(now);
        line_.clear();
    }
    next_ = now;
}

void EventsFile::read_line(Time now) {
    const auto presence = read_user_presence(line_);
    if (!presence) return;  // an event of another kind
    if (const auto watched = watchers_.user_of(presence->user))
        watchers_.observed({.observer = observer,
                            .user = *watched,
                            .online = presence->online,
                            .version = presence->version,
                            .at = state_.common(now),
                            .delay = state_.own_delay(now)},
                           now);
}

}  // namespace pulsegate::load
