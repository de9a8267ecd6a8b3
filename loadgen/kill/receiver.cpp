#include "loadgen/kill/receiver.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace pulsegate::kill {

using namespace std::chrono_literals;

namespace {

/// How long a broker may take to learn that a connection has ended.
constexpr Duration time_to_notice = 200ms;

}  // namespace

struct Receiver::Habit {
    Duration slowest_answer;
    Duration shortest_stay, longest_stay;  ///< zero: for ever
    Duration shortest_absence, longest_absence;
};

/// The gateway bans a client that breaks its connection 30 times within a minute (`ban-flaps`).
/// Clients that come and go do so less often on average.
const Receiver::Habit Receiver::habits[]{
    {0ms, 0s, 0s, 0s, 0s},                  // always connected
    {300ms, 0s, 0s, 0s, 0s},                // slow
    {0ms, 300ms, 2500ms, 200ms, 2s},        // comes and goes
    {0ms, 500ms, 2s, 3s, 10s},              // away
    {40ms, 0s, 0s, 0s, 0s},                 // always connected, far away
    {0ms, 1ms, 1ms, 1000'000s, 1000'000s},  // comes at the end
};

std::unique_ptr<Receiver> Receiver::one(RunContext& context, std::uint16_t number,
                                        Version version) {
    Part part{.id = user_of_receiver(number, context.run), .number = number, .habit = number};
    const bool is_guest = number >= context.receivers.kept;
    if (is_guest) {
        part.session = Session::clean;
        part.habit = number - context.receivers.kept;
    } else {
        part.filter = filter_of_receiver(number, context.run);
    }
    return std::unique_ptr<Receiver>(new Receiver(context, std::move(part), version));
}

std::unique_ptr<Receiver> Receiver::member(RunContext& context, std::uint16_t group,
                                           std::uint16_t member, Version version) {
    // The first two groups have members of all habits but the last.
    return std::unique_ptr<Receiver>(new Receiver(context,
                                                  {.id = client_name("member", member, context.run),
                                                   .filter = filter_of_group(group, context.run),
                                                   .number = group,
                                                   .member = member,
                                                   .habit = member},
                                                  version));
}

Receiver::Receiver(RunContext& context, Part part, Version version)
    : Client(context, std::move(part.id), version, part.session),
      filter_(std::move(part.filter)),
      number_(part.number),
      member_(part.member),
      keeps_session_(part.session == Session::kept),
      habit_(habits[part.habit % std::size(habits)]) {
    if (habit_.slowest_answer > 0s) acknowledge_later();
}

void Receiver::start() {
    there_ = keeps_session_ || habit_.longest_stay == 0s;
    want_connection(there_);
}

void Receiver::live_as_it_likes() { as_it_likes_ = habit_.longest_stay > 0s; }

void Receiver::stay() {
    as_it_likes_ = false;
    there_ = true;
    want_connection(true);
}

void Receiver::work(Time now) {
    if (as_it_likes_) come_or_go(now);
    if (!keeps_session_) note_absence(now);
    while (!answers_.empty() && answers_.front().due <= now) {
        mqtt().acknowledge(answers_.front().qos, answers_.front().packet_id);
        answers_.pop_front();
    }
    if (online() && now > std::max(quiet_since_, online_since()) + 1s)
        context().backlog.clear(number_);
}

void Receiver::note_absence(Time now) {
    if (!offline())
        known_away_since_.reset();
    else if (!known_away_since_)
        known_away_since_ = now + time_to_notice * context().options.slowness;
    if (is_unnoticed_) known_away_since_.reset();
    context().messages.keep_no_session(number_, known_away_since_);
}

void Receiver::edge_killed(std::uint16_t place, Time now) {
    const auto last = context().place_of.find(id());
    if (keeps_session_ || last == context().place_of.end() || last->second != place) return;
    is_unnoticed_ = !known_away_since_ || now < *known_away_since_;
    note_absence(now);
}

void Receiver::come_or_go(Time now) {
    if (now < change_at_) return;
    there_ = !there_;
    change_at_ =
        now + (there_ ? context().random.between(habit_.shortest_stay, habit_.longest_stay)
                      : context().random.between(habit_.shortest_absence, habit_.longest_absence));
    want_connection(there_);
    constexpr std::array endings{Ending::disconnect, Ending::disconnect, Ending::close,
                                 Ending::reset};
    if (!there_) end_connection(endings[context().random.below(endings.size())]);
}

void Receiver::on_login(bool session_present) {
    is_unnoticed_ = false;
    if (member_) context().messages.attend(*member_, online_since());
    if (session_present && is_subscribed_) return;
    if (is_subscribed_) {
        context().messages.lose_session(id(), online_since());
        context().messages.begin_order_anew(number_);
    }
    is_subscribed_ = false;
    if (!filter_.empty()) subscribe(filter_, QoS::exactly_once);
}

void Receiver::on_end() {
    answers_.clear();
    if (member_) context().messages.attend(*member_, Time());
}

void Receiver::subscribed(load::MqttClient&, std::size_t, std::span<const Reason> reasons, Time) {
    is_subscribed_ = !is_error(reasons.front());
}

void Receiver::received(load::MqttClient&, const Publish& publish, Time now) {
    quiet_since_ = now;
    if (const auto message = read(publish, now)) {
        context().backlog.remove(number_);
        context().messages.receive(*message, {.receiver = number_,
                                              .at = now,
                                              .connected_since = online_since(),
                                              .member = member_.value_or(0),
                                              .session_kept = keeps_session_,
                                              .dup = publish.dup});
    }
    answer(publish, now);
}

void Receiver::received_again(load::MqttClient&, const Publish& publish, bool is_same, Time now) {
    quiet_since_ = now;
    const auto message = read(publish, now);
    if (message && !is_same)
        context().messages.note_fault(
            fmt::format("the packet identifier {} of {} used for {} before "
                        "another message was released",
                        publish.packet_id, id(), describe(*message)),
            now);
    answer(publish, now);
}

/// Nothing if it is not one of our messages as it was sent; then that is noted.
std::optional<Message> Receiver::read(const Publish& publish, Time now) {
    auto message = read_payload(publish.payload, context().run);
    if (message && message->stream.kind == Kind::room) message->stream.to = number_;
    if (message && publish.topic == topic_of(message->stream, context().run) &&
        publish.qos == qos_of(*message))
        return message;
    context().messages.note_fault(
        fmt::format("to {} on {} at QoS {}: {}", id(), publish.topic, static_cast<int>(publish.qos),
                    message ? describe(*message) : "not what was sent"),
        now);
    return std::nullopt;
}

/// A slow client answers later, but always in the order of the messages (MQTT 4.6).
void Receiver::answer(const Publish& publish, Time now) {
    if (habit_.slowest_answer == 0s) return;
    const Time due = now + context().random.between(0s, habit_.slowest_answer);
    answers_.push_back({answers_.empty() ? due : std::max(due, answers_.back().due), publish.qos,
                        publish.packet_id});
}

}  // namespace pulsegate::kill
