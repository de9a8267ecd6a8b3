#include "loadgen/kill/watcher.h"

#include <fmt/format.h>

#include "loadgen/kill/presence_change.h"

namespace pulsegate::kill {

using namespace std::chrono_literals;

// Four watchers in a row are of four different sorts.
Watcher::Watcher(Scene& scene, std::uint16_t number, Version version)
    : Client(scene, fmt::format("kill-{}-watcher-{}", scene.run, number), version,
             number % 2 == 0 ? Session::kept : Session::clean),
      keeps_session_(number % 2 == 0),
      comes_and_goes_(number % 4 >= 2) {}

void Watcher::stay() {
    as_it_likes_ = false;
    there_ = true;
    want_connection(true);
}

void Watcher::work(Time now) {
    if (!as_it_likes_ || now < change_at_) return;
    there_ = !there_;
    change_at_ = now + (there_ ? scene().dice.between(4s, 8s) : scene().dice.between(2500ms, 4s));
    want_connection(there_);
    if (!there_) end_connection(Ending::disconnect);
}

void Watcher::on_login(const Connack& connack) {
    const bool goes_on = connack.session_present && subscribed_;
    if (keeps_session_ && subscribed_ && !goes_on) scene().book.lose_session(id(), online_since());
    scene().presence.begin_watching(id(), !goes_on, online_since());
    if (goes_on) return;
    subscribed_ = true;
    send(Subscribe{.packet_id = 1, .filters = {{"presence/+", {.qos = QoS::at_least_once}}}});
}

void Watcher::on_packet(const Packet& packet) {
    const auto* publish = std::get_if<Publish>(&packet);
    if (!publish) return;
    if (publish->qos == QoS::at_least_once) send(Puback{.packet_id = publish->packet_id});
    const Time now = load::Clock::now();
    const auto change = read_presence_change(publish->payload);
    if (!change)
        return scene().book.note_fault(
            fmt::format("to {} on {}: '{:.40}'", id(), publish->topic, publish->payload), now);
    scene().presence.tell(id(), change->user, change->state, now, publish->dup);
}

}  // namespace pulsegate::kill
