#include "loadgen/kill/visitor.h"

#include <fmt/format.h>

namespace pulsegate::kill {

using namespace std::chrono_literals;

Visitor::Visitor(Scene& scene, std::uint16_t number, Version version)
    : Client(scene, client_name("visitor", number, scene.run), version, Session::clean,
             short_keepalive) {}

void Visitor::on_login(bool) { leave_at_ = online_since() + scene().dice.between(200ms, 1500ms); }

void Visitor::on_end() {
    const Time now = load::Clock::now();
    const bool cut_off = now < leave_at_;
    const bool soon = scene().dice.below(2) == 0;
    if (!cut_off)
        return_at_ = now + scene().dice.between(2s, 4s);
    else
        return_at_ =
            now + (soon ? scene().dice.between(0s, limit()) : scene().dice.between(4s, 12s));
}

void Visitor::work(Time now) {
    if (online() && now >= leave_at_)
        end_connection(scene().dice.below(2) == 0 ? Ending::disconnect : Ending::close);
    want_connection(visiting_ && now >= return_at_);
}

}  // namespace pulsegate::kill
