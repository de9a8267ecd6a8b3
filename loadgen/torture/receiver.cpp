#include "loadgen/torture/receiver.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace pulsegate::torture {

using namespace std::chrono_literals;

struct Receiver::Habit {
    Duration slowest_answer;
    Duration shortest_stay, longest_stay;  ///< zero: for ever
    Duration shortest_absence, longest_absence;
};

/// A client may break its connection 30 times a minute; those that do are gone longer than that.
const Receiver::Habit Receiver::habits[]{
    {0ms, 0s, 0s, 0s, 0s},                  // there
    {300ms, 0s, 0s, 0s, 0s},                // slow
    {0ms, 300ms, 2500ms, 200ms, 2s},        // comes and goes
    {0ms, 500ms, 2s, 3s, 10s},              // away
    {40ms, 0s, 0s, 0s, 0s},                 // there, and far away
    {0ms, 1ms, 1ms, 1000'000s, 1000'000s},  // comes at the end
};

Receiver::Receiver(Scene& scene, std::uint16_t number, Version version)
    : Client(scene, fmt::format("torture-{}-receiver-{}", scene.run, number), version,
             Session::kept),
      number_(number),
      habit_(habits[number % std::size(habits)]) {}

void Receiver::live_as_it_likes() { as_it_likes_ = habit_.longest_stay > 0s; }

void Receiver::stay() {
    as_it_likes_ = false;
    there_ = true;
    want_connection(true);
}

void Receiver::work(Time now) {
    if (as_it_likes_) come_or_go(now);
    while (!answers_.empty() && answers_.front().due <= now) {
        std::visit([this](const auto& packet) { send(packet); }, answers_.front().packet);
        answers_.pop_front();
    }
    if (online() && now > std::max(quiet_since_, online_since()) + 1s)
        scene().backlog.clear(number_);
}

void Receiver::come_or_go(Time now) {
    if (now < change_at_) return;
    there_ = !there_;
    change_at_ =
        now + (there_ ? scene().dice.between(habit_.shortest_stay, habit_.longest_stay)
                      : scene().dice.between(habit_.shortest_absence, habit_.longest_absence));
    want_connection(there_);
    constexpr std::array endings{Ending::disconnect, Ending::disconnect, Ending::close,
                                 Ending::reset};
    if (!there_) end_connection(endings[scene().dice.below(endings.size())]);
}

void Receiver::on_login(const Connack& connack) {
    if (connack.session_present && subscribed_) return;
    if (subscribed_) {
        scene().book.lose_session(id(), online_since());
        scene().book.begin_order_anew(number_);
    }
    subscribed_ = false;
    unreleased_.clear();
    const auto filter = filter_of_receiver(number_, scene().run);
    send(Subscribe{.packet_id = 1, .filters = {{filter, {.qos = QoS::exactly_once}}}});
}

void Receiver::on_packet(const Packet& packet) {
    std::visit(
        [this]<class Each>(const Each& each) {
            if constexpr (requires { this->take(each); }) take(each);
        },
        packet);
}

void Receiver::take(const Suback& suback) { subscribed_ = !is_error(suback.reasons.front()); }

void Receiver::take(const Publish& publish) {
    const Time now = quiet_since_ = load::Clock::now();
    const auto message = read_payload(publish.payload);
    if (!message || publish.topic != topic_of(message->stream, scene().run) ||
        publish.qos != qos_of(message->stream.kind)) {
        scene().book.note_fault(fmt::format("to {} on {} at QoS {}: '{:.40}'", id(), publish.topic,
                                            static_cast<int>(publish.qos), publish.payload),
                                now);
    } else if (publish.qos != QoS::exactly_once ||
               unreleased_.try_emplace(publish.packet_id, *message).second) {
        scene().backlog.remove(number_);
        scene().book.receive(*message, number_, now, online_since());
    } else if (unreleased_[publish.packet_id] != *message) {
        scene().book.note_fault(fmt::format("the packet identifier {} of {} used for {} before "
                                            "{} was released",
                                            publish.packet_id, id(), describe(*message),
                                            describe(unreleased_[publish.packet_id])),
                                now);
    }
    if (publish.qos == QoS::exactly_once) answer(Pubrec{.packet_id = publish.packet_id});
    if (publish.qos == QoS::at_least_once) answer(Puback{.packet_id = publish.packet_id});
}

void Receiver::take(const Pubrel& pubrel) {
    unreleased_.erase(pubrel.packet_id);
    send(Pubcomp{.packet_id = pubrel.packet_id});
}

/// At once, or later, but in the order of the messages (MQTT 4.6).
void Receiver::answer(const Packet& packet) {
    if (habit_.slowest_answer == 0s)
        return std::visit([this](const auto& each) { send(each); }, packet);
    const Time due = load::Clock::now() + scene().dice.between(0s, habit_.slowest_answer);
    answers_.push_back({answers_.empty() ? due : std::max(due, answers_.back().due), packet});
}

}  // namespace pulsegate::torture
