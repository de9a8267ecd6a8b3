#include "server/session/sending/body_reader.h"

#include <utility>
#include <vector>

namespace pulsegate {

namespace {

/// A read gets more than a window of messages, so that clients hardly ever wait for the store.
constexpr std::size_t messages_a_read = 256;
constexpr std::size_t bytes_a_read = 256 * 1024;

/// The maximum number of reads under way. Pages must not fill the memory when all clients come back
/// at once: if messages are large, these reads take up to 16 MB.
constexpr std::size_t most_under_way = 64;

}  // namespace

void BodyReader::read(Session& session) {
    const auto [reading, is_new] = readings_.try_emplace(session.id, Reading{&session});
    if (!is_new) return;
    if (journal_.is_refused()) return;  // the bodies may not be written yet
    wait(session.id, reading->second);
    ask_next();
}

void BodyReader::wait(SessionId id, Reading& reading) {
    if (reading.is_asked_for || std::exchange(reading.is_waiting, true)) return;
    waiting_.push_back(id);
}

void BodyReader::ask_next() {
    while (under_way_ < most_under_way && !waiting_.empty()) {
        const SessionId id = waiting_.front();
        waiting_.pop_front();
        const auto reading = readings_.find(id);
        if (reading == readings_.end()) continue;
        reading->second.is_waiting = false;
        if (!reading->second.is_asked_for) ask(id, reading->second);
    }
}

void BodyReader::ask(SessionId id, Reading& reading) {
    const Outbox& outbox = reading.session->state.exchanges().outbox();
    auto stamps = outbox.bodies_to_read(messages_a_read, bytes_a_read);
    if (stamps.empty()) {
        readings_.erase(id);
        return;
    }
    reading.is_asked_for = true;
    ++under_way_;
    store_.read_messages(id, std::move(stamps));
}

Session* BodyReader::receive(const MessagesRead& read) {
    --under_way_;
    ask_next();
    const auto reading = readings_.find(read.session);
    if (reading == readings_.end()) return nullptr;
    if (read.refused) {
        reading->second.is_asked_for = false;
        return nullptr;
    }
    Session* const session = reading->second.session;
    readings_.erase(reading);
    return session;
}

void BodyReader::tick() {
    if (journal_.is_refused()) return;
    for (auto& [id, reading] : readings_) wait(id, reading);
    ask_next();
}

}  // namespace pulsegate
