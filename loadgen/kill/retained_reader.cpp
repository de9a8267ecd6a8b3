#include "loadgen/kill/retained_reader.h"

#include <fmt/format.h>

namespace pulsegate::kill {

using namespace std::chrono_literals;

namespace {

constexpr auto patience = 2s;  // after the last value that came

}  // namespace

void RetainedReader::begin() {
    if (online()) end_connection(Ending::disconnect);
    connect_as(client_name("reader", ++readings_, context().run));
    reading_ = true;
    want_connection(true);
}

void RetainedReader::on_login(bool) {
    expected_ = context().messages.acknowledged_values();
    last_value_at_ = online_since();
    subscribe(filter_of_retained(context().run), QoS::at_least_once);
}

void RetainedReader::received(load::MqttClient&, const Publish& publish, Time now) {
    if (!publish.retain) return;  // a new value
    last_value_at_ = now;
    const auto value = read_payload(publish.payload, context().run);
    if (!value || publish.topic != topic_of(value->stream, context().run))
        return context().messages.note_fault(
            fmt::format("retained on {}: not what was sent", publish.topic), now);
    const auto expected = expected_.find(value->stream);
    context().messages.read_value(*value, expected == expected_.end() ? 0 : expected->second, now);
    if (expected != expected_.end()) expected_.erase(expected);
}

void RetainedReader::work(Time now) {
    if (!online() || !reading_) return;
    if (!expected_.empty() && now < last_value_at_ + patience) return;
    for (const auto& [stream, least] : expected_)
        context().messages.read_value({stream, 0}, least, now);
    reading_ = false;
    want_connection(false);
    end_connection(Ending::disconnect);
}

}  // namespace pulsegate::kill
