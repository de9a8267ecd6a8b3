#include "loadgen/measure/measurements.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_to.hpp>
#include <stdexcept>
#include <string>

namespace pulsegate::load {

namespace json = boost::json;

namespace {

constexpr std::array<MeasureInfo, counts_size> count_infos{{
    {"connects", "", "attempts to connect"},
    {"connected", "", "logins that succeeded"},
    {"entered", "", "clients that were connected at least once"},
    {"connect_failed", "", "attempts that were refused or lost"},
    {"refused_busy", "", "attempts refused as busy"},
    {"resumed", "", "logins that found their kept session"},
    {"session_lost", "", "kept sessions that the server no longer had"},
    {"filters_refused", "", "filters of subscriptions that were refused, except presence filters"},
    {"presence_filters_granted", "", "presence filters that were granted"},
    {"presence_filters_refused", "", "presence filters that were refused"},
    {"violations", "", "violations of the protocol by the server"},
    {"kept_out", "", "clients that the server did not let in again"},
    {"packets_sent", "", "MQTT packets sent"},
    {"packets_received", "", "MQTT packets received"},
    {"bytes_sent", "bytes", "sent, without TLS and WebSocket"},
    {"bytes_received", "bytes", "received, without TLS and WebSocket"},
    {"pings_sent", "", "PINGREQ sent"},
    {"pings_answered", "", "PINGRESP received"},
    {"pings_late", "", "pings answered too late"},
    {"pings_unanswered", "", "pings never answered"},
    {"messages_planned", "", "messages planned"},
    {"messages_unsent", "", "messages planned while their sender was not connected"},
    {"messages_sent", "", "messages sent"},
    {"messages_expected", "", "deliveries that must happen"},
    {"messages_received", "", "deliveries that happened, each counted once"},
    {"messages_lost", "", "deliveries that never happened"},
    {"messages_crossed", "", "deliveries from a client of one node to a client of another"},
    {"messages_lost_crossing", "", "the same, but they never happened"},
    {"messages_repeated", "", "QoS 1 messages delivered again"},
    {"messages_repeated_qos2", "", "QoS 0 and 2 messages delivered more than once"},
    {"messages_reordered", "", "messages behind a later one of their sender"},
    {"messages_misdirected", "", "messages delivered to the wrong client"},
    {"messages_damaged", "", "messages that nobody sent like this"},
    {"messages_in_doubt", "", "messages whose sender lost its connection before the answer"},
    {"messages_missed_away", "", "messages to clients that were away and keep no session"},
    {"messages_missed_closed", "", "messages missed by clients that the server closed wrongly"},
    {"messages_excused", "", "messages missing through the generator's own fault"},
    {"acknowledged", "", "publishes acknowledged"},
    {"unacknowledged", "", "publishes never acknowledged"},
    {"unreleased", "", "deliveries at QoS 2 without a PUBREL"},
    {"publishes_refused", "", "publishes acknowledged with an error"},
    {"false_offline", "", "clients closed although they kept talking"},
    {"starved", "", "clients closed because the generator was too late"},
    {"token_expired", "", "clients closed because their token had expired"},
    {"silent", "", "clients that fell silent"},
    {"closed_in_time", "", "silent clients closed in time"},
    {"closed_early", "", "silent clients closed too early"},
    {"closed_late", "", "silent clients closed too late"},
    {"never_closed", "", "silent clients never closed"},
    {"closed_unclear", "", "silent clients whose close can't be judged"},
    {"presence_changes", "", "presence changes seen by watchers"},
    {"presence_false_offline", "", "live clients shown as offline"},
    {"presence_ghosts", "", "dead clients shown as online"},
    {"presence_out_of_order", "", "presence versions out of order"},
    {"presence_contradicted", "", "presence states that differ for one version"},
    {"presence_missing", "", "changes of presence that were not shown"},
    {"presence_unseen", "", "users who were online and never shown"},
    {"presence_asked", "", "users whose presence was asked for by HTTP"},
    {"presence_unanswered", "", "users whose presence was asked for without an answer"},
    {"presence_http_false_offline", "", "live clients that HTTP told to be offline"},
    {"presence_http_ghosts", "", "dead clients that HTTP told to be online"},
    {"presence_http_out_of_order", "", "presence versions by HTTP out of order"},
    {"naps", "", "clients that went away as planned"},
    {"network_changes", "", "clients that changed their network"},
    {"vanished", "", "clients that vanished in a storm"},
    {"hostile_started", "", "hostile connections"},
    {"hostile_closed", "", "hostile connections closed by the server"},
    {"stalls", "", "stalls of the generator"},
}};

constexpr std::array<MeasureInfo, timings_size> timing_infos{{
    {"login", "s", "from the connect to the SUBACK"},
    {"tcp_connect", "s", "until TCP was connected"},
    {"message", "s", "from the planned time of a message to its arrival"},
    {"message_return", "s", "the same for messages that waited for their receiver"},
    {"send_lag", "s", "from the planned time of a message to its send"},
    {"acknowledgement", "s", "from the send of a message to its acknowledgement"},
    {"ping", "s", "from a ping to its answer"},
    {"expiry", "s", "from the last packet of a silent client to its close"},
    {"detection", "s", "from the last packet of a client to its watcher's offline"},
    {"appearance", "s", "from the login of a client to its watcher's online"},
    {"back_again", "s", "from a storm to the client's return"},
    {"last_attempt", "s", "of the attempt that brought a client back"},
    {"loop_lag", "s", "how late the generator's event loop was"},
}};

constexpr std::array<MeasureInfo, gauges_size> gauge_infos{{
    {"clients_open", "", "open connections"},
    {"clients_silent", "", "open connections that say nothing"},
    {"clients_away", "", "clients that are away as planned"},
    {"clients_waiting", "", "clients that wait for their next attempt"},
    {"worker_cpu", "cores", "CPU of the generator"},
    {"worker_cpu_max", "cores", "CPU of the generator's busiest process"},
    {"worker_wait", "", "share of the time that the generator waited for a core"},
    {"server_cpu", "cores", "CPU of the server"},
    {"server_wait", "", "share of the time that a thread of the server waited for a core"},
    {"server_memory", "bytes", "resident memory of the server"},
    {"server_threads", "", "threads of the server"},
    {"server_files", "", "open files of the server"},
    {"server_loop_lag", "s", "how late the server's event loops were"},
    {"server_connections", "", "connections that the server counts"},
    {"server_silence", "s", "longest time in which nothing came from the server"},
    {"machine_busy", "", "share of all cores that the machine used"},
    {"machine_steal", "", "share of all cores that the hypervisor gave to others"},
}};

bool largest_counts(Gauge gauge) {
    return gauge == Gauge::worker_cpu_max || gauge == Gauge::worker_wait ||
           gauge == Gauge::server_wait || gauge == Gauge::server_loop_lag ||
           gauge == Gauge::machine_busy || gauge == Gauge::machine_steal;
}

/// The server was silent only as long as all workers heard nothing.
bool smallest_counts(Gauge gauge) { return gauge == Gauge::server_silence; }

template <class Enum, class Infos, class Visit>
void for_each_named(const json::object& values, const Infos& infos, Visit visit) {
    for (std::size_t at = 0; at < infos.size(); ++at)
        if (const auto* value = values.if_contains(infos[at].name))
            visit(static_cast<Enum>(at), *value);
}

json::object json_of(const Histogram& histogram) {
    json::array buckets;
    for (const auto& [at, count] : histogram.buckets()) {
        buckets.push_back(at);
        buckets.push_back(count);
    }
    return {{"min", histogram.min().count()},
            {"max", histogram.max().count()},
            {"sum", histogram.sum()},
            {"buckets", std::move(buckets)}};
}

Histogram histogram_of(const json::value& value) {
    const auto& object = value.as_object();
    const auto& pairs = object.at("buckets").as_array();
    std::vector<std::pair<std::uint32_t, std::uint64_t>> buckets;
    for (std::size_t at = 0; at + 1 < pairs.size(); at += 2)
        buckets.emplace_back(json::value_to<std::uint32_t>(pairs[at]),
                             json::value_to<std::uint64_t>(pairs[at + 1]));
    return Histogram::restored(buckets, Duration(object.at("min").to_number<std::int64_t>()),
                               Duration(object.at("max").to_number<std::int64_t>()),
                               object.at("sum").to_number<double>());
}

}  // namespace

const MeasureInfo& info(Count count) { return count_infos[static_cast<std::size_t>(count)]; }
const MeasureInfo& info(Timing timing) { return timing_infos[static_cast<std::size_t>(timing)]; }
const MeasureInfo& info(Gauge gauge) { return gauge_infos[static_cast<std::size_t>(gauge)]; }

void Measurements::set(Gauge gauge, double value) { gauges_[index(gauge)] = value; }

void Measurements::merge(const Measurements& others) {
    for (std::size_t at = 0; at < counts_size; ++at) counts_[at] += others.counts_[at];
    for (std::size_t at = 0; at < timings_size; ++at) timings_[at].add(others.timings_[at]);
    for (std::size_t at = 0; at < gauges_size; ++at) {
        if (others.gauges_[at] < 0) continue;
        if (gauges_[at] < 0)
            gauges_[at] = others.gauges_[at];
        else if (largest_counts(static_cast<Gauge>(at)))
            gauges_[at] = std::max(gauges_[at], others.gauges_[at]);
        else if (smallest_counts(static_cast<Gauge>(at)))
            gauges_[at] = std::min(gauges_[at], others.gauges_[at]);
        else
            gauges_[at] += others.gauges_[at];
    }
}

bool Measurements::empty() const {
    const auto zero = [](auto count) { return count == 0; };
    const auto unset = [](double value) { return value < 0; };
    return std::ranges::all_of(counts_, zero) && std::ranges::all_of(gauges_, unset) &&
           std::ranges::all_of(timings_, &Histogram::empty);
}

json::object to_json(const Measurements& measurements) {
    json::object counts;
    for (std::size_t at = 0; at < counts_size; ++at)
        if (const auto many = measurements[static_cast<Count>(at)]; many > 0)
            counts[count_infos[at].name] = many;
    json::object timings;
    for (std::size_t at = 0; at < timings_size; ++at)
        if (const auto& times = measurements[static_cast<Timing>(at)]; !times.empty())
            timings[timing_infos[at].name] = json_of(times);
    json::object gauges;
    for (std::size_t at = 0; at < gauges_size; ++at)
        if (const double value = measurements[static_cast<Gauge>(at)]; value >= 0)
            gauges[gauge_infos[at].name] = value;
    return {{"counts", std::move(counts)},
            {"timings", std::move(timings)},
            {"gauges", std::move(gauges)}};
}

Measurements measurements_from(const json::value& value) try {
    Measurements measurements;
    const auto& object = value.as_object();
    for_each_named<Count>(object.at("counts").as_object(), count_infos,
                          [&](Count count, const json::value& many) {
                              measurements.add(count, many.to_number<std::uint64_t>());
                          });
    for_each_named<Timing>(object.at("timings").as_object(), timing_infos,
                           [&](Timing timing, const json::value& times) {
                               measurements.add_all(timing, histogram_of(times));
                           });
    for_each_named<Gauge>(object.at("gauges").as_object(), gauge_infos,
                          [&](Gauge gauge, const json::value& level) {
                              measurements.set(gauge, level.to_number<double>());
                          });
    return measurements;
} catch (const std::exception& error) {
    throw std::runtime_error(std::string("no measurements: ") + error.what());
}

}  // namespace pulsegate::load
