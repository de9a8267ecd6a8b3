#include "loadgen/torture/will_client.h"

#include <fmt/format.h>

namespace pulsegate::torture {

using namespace std::chrono_literals;

namespace {

constexpr auto time_for_will = 1500ms;

}  // namespace

WillClient::WillClient(Scene& scene, std::uint16_t number, Version version)
    : Client(scene, fmt::format("torture-{}-mortal-{}", scene.run, number), version, Session::kept),
      number_(number) {}

std::optional<std::pair<std::string, std::string>> WillClient::will() {
    const auto to = scene().dice.below(scene().options.receivers);
    will_ = scene().book.send({Kind::will, number_, to}, load::Clock::now());
    return {{topic_of(will_.stream, scene().run), payload_of(will_)}};
}

void WillClient::on_login(const Connack&) {
    break_at_ = online_since() + scene().dice.between(300ms, 2s);
}

void WillClient::work(Time now) {
    if (online() && now >= break_at_) {
        want_connection(false);
        broken_at_ = now;
        end_connection(scene().dice.below(2) == 0 ? Ending::close : Ending::reset);
    }
    if (online() || now < broken_at_ + time_for_will) return;
    if (broken_at_ != Time()) scene().book.acknowledge(will_, now);
    broken_at_ = {};
    want_connection(begun_);
}

}  // namespace pulsegate::torture
