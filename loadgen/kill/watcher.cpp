#include "loadgen/kill/watcher.h"

#include <fmt/format.h>

#include "loadgen/observe/user_presence.h"

namespace pulsegate::kill {

using namespace std::chrono_literals;

// Four watchers in a row are of four different sorts.
Watcher::Watcher(RunContext& context, std::uint16_t number, Version version)
    : Client(context, client_name("watcher", number, context.run), version,
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
    change_at_ =
        now + (there_ ? context().random.between(4s, 8s) : context().random.between(2500ms, 4s));
    want_connection(there_);
    if (!there_) end_connection(Ending::disconnect);
}

void Watcher::on_login(bool session_present) {
    const bool goes_on = session_present && is_subscribed_;
    if (keeps_session_ && is_subscribed_ && !goes_on)
        context().messages.lose_session(id(), online_since());
    context().presence.begin_watching(id(), !goes_on, online_since());
    if (goes_on) return;
    is_subscribed_ = true;
    subscribe("presence/+", QoS::at_least_once);
}

void Watcher::received(load::MqttClient&, const Publish& publish, Time now) {
    const auto shown = load::read_user_presence(publish.payload);
    if (!shown)
        return context().messages.note_fault(
            fmt::format("to {} on {}: '{:.40}'", id(), publish.topic, publish.payload), now);
    context().presence.tell(id(), shown->user, {shown->online, shown->version}, now, publish.dup);
}

}  // namespace pulsegate::kill
