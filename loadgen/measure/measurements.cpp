#include "loadgen/measure/measurements.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_to.hpp>
#include <stdexcept>
#include <string>

#include "loadgen/measure/in_order.h"

namespace pulsegate::load {

namespace json = boost::json;

namespace {

template <class Id>
struct MeasureRow {
    Id id;
    MeasureInfo info;
};

constexpr std::array<MeasureRow<Count>, counts_size> count_rows{{
    {Count::connects, {"connects", "", "attempts to connect"}},
    {Count::connected, {"connected", "", "logins that succeeded"}},
    {Count::entered, {"entered", "", "clients that were connected at least once"}},
    {Count::connect_failed, {"connect_failed", "", "attempts that were refused or lost"}},
    {Count::refused_busy, {"refused_busy", "", "attempts refused as busy"}},
    {Count::resumed, {"resumed", "", "logins that found their kept session"}},
    {Count::session_lost, {"session_lost", "", "kept sessions that the server no longer had"}},
    {Count::filters_refused,
     {"filters_refused", "",
      "filters of subscriptions that were refused, except presence filters"}},
    {Count::presence_filters_granted,
     {"presence_filters_granted", "", "presence filters that were granted"}},
    {Count::presence_filters_refused,
     {"presence_filters_refused", "", "presence filters that were refused"}},
    {Count::violations, {"violations", "", "violations of the protocol by the server"}},
    {Count::kept_out, {"kept_out", "", "clients that the server did not let in again"}},
    {Count::packets_sent, {"packets_sent", "", "MQTT packets sent"}},
    {Count::packets_received, {"packets_received", "", "MQTT packets received"}},
    {Count::bytes_sent, {"bytes_sent", "bytes", "sent, without TLS and WebSocket"}},
    {Count::bytes_received, {"bytes_received", "bytes", "received, without TLS and WebSocket"}},
    {Count::pings_sent, {"pings_sent", "", "PINGREQ sent"}},
    {Count::pings_answered, {"pings_answered", "", "PINGRESP received"}},
    {Count::pings_late, {"pings_late", "", "pings answered too late"}},
    {Count::pings_unanswered, {"pings_unanswered", "", "pings never answered"}},
    {Count::messages_planned, {"messages_planned", "", "messages planned"}},
    {Count::messages_unsent,
     {"messages_unsent", "", "messages planned while their sender was not connected"}},
    {Count::messages_sent, {"messages_sent", "", "messages sent"}},
    {Count::messages_expected, {"messages_expected", "", "deliveries that must happen"}},
    {Count::messages_received,
     {"messages_received", "", "deliveries that happened, each counted once"}},
    {Count::messages_lost, {"messages_lost", "", "deliveries that never happened"}},
    {Count::messages_crossed,
     {"messages_crossed", "", "deliveries from a client of one node to a client of another"}},
    {Count::messages_lost_crossing,
     {"messages_lost_crossing", "", "the same, but they never happened"}},
    {Count::messages_repeated, {"messages_repeated", "", "QoS 1 messages delivered again"}},
    {Count::messages_repeated_qos2,
     {"messages_repeated_qos2", "", "QoS 0 and 2 messages delivered more than once"}},
    {Count::messages_reordered,
     {"messages_reordered", "", "messages behind a later one of their sender"}},
    {Count::messages_misdirected,
     {"messages_misdirected", "", "messages delivered to the wrong client"}},
    {Count::messages_damaged, {"messages_damaged", "", "messages that nobody sent like this"}},
    {Count::messages_forged,
     {"messages_forged", "", "messages that named another user as their sender"}},
    {Count::messages_late, {"messages_late", "", "messages that came too late"}},
    {Count::messages_in_doubt,
     {"messages_in_doubt", "", "messages whose sender lost its connection before the answer"}},
    {Count::messages_missed_away,
     {"messages_missed_away", "", "messages to clients that were away and keep no session"}},
    {Count::messages_missed_closed,
     {"messages_missed_closed", "", "messages missed by clients that the server closed wrongly"}},
    {Count::messages_excused,
     {"messages_excused", "", "messages missing through the generator's own fault"}},
    {Count::acknowledged, {"acknowledged", "", "publishes acknowledged"}},
    {Count::acknowledged_late, {"acknowledged_late", "", "publishes acknowledged too late"}},
    {Count::acknowledged_disorderly,
     {"acknowledged_disorderly", "", "publishes acknowledged behind a later one"}},
    {Count::unacknowledged, {"unacknowledged", "", "publishes never acknowledged"}},
    {Count::unreleased, {"unreleased", "", "deliveries at QoS 2 without a PUBREL"}},
    {Count::publishes_refused, {"publishes_refused", "", "publishes acknowledged with an error"}},
    {Count::false_offline, {"false_offline", "", "clients closed although they kept talking"}},
    {Count::starved, {"starved", "", "clients closed because the generator was too late"}},
    {Count::token_expired, {"token_expired", "", "clients closed because their token had expired"}},
    {Count::silent, {"silent", "", "clients that fell silent"}},
    {Count::closed_in_time, {"closed_in_time", "", "silent clients closed in time"}},
    {Count::closed_early, {"closed_early", "", "silent clients closed too early"}},
    {Count::closed_late, {"closed_late", "", "silent clients closed too late"}},
    {Count::never_closed, {"never_closed", "", "silent clients never closed"}},
    {Count::closed_unclear, {"closed_unclear", "", "silent clients whose close can't be judged"}},
    {Count::presence_changes, {"presence_changes", "", "presence changes seen by watchers"}},
    {Count::presence_false_offline,
     {"presence_false_offline", "", "live clients shown as offline"}},
    {Count::presence_ghosts, {"presence_ghosts", "", "dead clients shown as online"}},
    {Count::presence_out_of_order, {"presence_out_of_order", "", "presence versions out of order"}},
    {Count::presence_contradicted,
     {"presence_contradicted", "", "presence states that differ for one version"}},
    {Count::presence_missing, {"presence_missing", "", "changes of presence that were not shown"}},
    {Count::presence_late, {"presence_late", "", "logins that were shown late"}},
    {Count::presence_unseen, {"presence_unseen", "", "users who were online and never shown"}},
    {Count::presence_outdated,
     {"presence_outdated", "", "old or missing states for watchers that came"}},
    {Count::presence_asked, {"presence_asked", "", "users whose presence was asked for by HTTP"}},
    {Count::presence_unanswered,
     {"presence_unanswered", "", "users whose presence was asked for without an answer"}},
    {Count::presence_http_false_offline,
     {"presence_http_false_offline", "", "live clients that HTTP told to be offline"}},
    {Count::presence_http_ghosts,
     {"presence_http_ghosts", "", "dead clients that HTTP told to be online"}},
    {Count::presence_http_out_of_order,
     {"presence_http_out_of_order", "", "presence versions by HTTP out of order"}},
    {Count::naps, {"naps", "", "clients that went away as planned"}},
    {Count::network_changes, {"network_changes", "", "clients that changed their network"}},
    {Count::vanished, {"vanished", "", "clients that vanished in a storm"}},
    {Count::hostile_started, {"hostile_started", "", "hostile connections"}},
    {Count::hostile_closed, {"hostile_closed", "", "hostile connections closed by the server"}},
    {Count::stalls, {"stalls", "", "stalls of the generator"}},
}};
static_assert(in_order(count_rows));

constexpr std::array<MeasureRow<Timing>, timings_size> timing_rows{{
    {Timing::login, {"login", "s", "from the connect to the SUBACK"}},
    {Timing::tcp_connect, {"tcp_connect", "s", "until TCP was connected"}},
    {Timing::message, {"message", "s", "from the planned time of a message to its arrival"}},
    {Timing::message_return,
     {"message_return", "s", "the same for messages that waited for their receiver"}},
    {Timing::send_lag, {"send_lag", "s", "from the planned time of a message to its send"}},
    {Timing::acknowledgement,
     {"acknowledgement", "s", "from the send of a message to its acknowledgement"}},
    {Timing::ping, {"ping", "s", "from a ping to its answer"}},
    {Timing::expiry, {"expiry", "s", "from the last packet of a silent client to its close"}},
    {Timing::detection,
     {"detection", "s", "from the last packet of a client to its watcher's offline"}},
    {Timing::appearance, {"appearance", "s", "from the login of a client to its watcher's online"}},
    {Timing::back_again, {"back_again", "s", "from a storm to the client's return"}},
    {Timing::last_attempt, {"last_attempt", "s", "of the attempt that brought a client back"}},
    {Timing::loop_lag, {"loop_lag", "s", "how late the generator's event loop was"}},
}};
static_assert(in_order(timing_rows));

constexpr std::array<MeasureRow<Gauge>, gauges_size> gauge_rows{{
    {Gauge::clients_open, {"clients_open", "", "open connections"}},
    {Gauge::clients_silent, {"clients_silent", "", "open connections that say nothing"}},
    {Gauge::clients_away, {"clients_away", "", "clients that are away as planned"}},
    {Gauge::clients_waiting, {"clients_waiting", "", "clients that wait for their next attempt"}},
    {Gauge::worker_cpu, {"worker_cpu", "cores", "CPU of the generator"}},
    {Gauge::worker_cpu_max, {"worker_cpu_max", "cores", "CPU of the generator's busiest process"}},
    {Gauge::worker_wait,
     {"worker_wait", "", "share of the time that the generator waited for a core"}},
    {Gauge::server_cpu, {"server_cpu", "cores", "CPU of the server"}},
    {Gauge::server_wait,
     {"server_wait", "", "share of the time that a thread of the server waited for a core"}},
    {Gauge::server_memory, {"server_memory", "bytes", "resident memory of the server"}},
    {Gauge::server_threads, {"server_threads", "", "threads of the server"}},
    {Gauge::server_files, {"server_files", "", "open files of the server"}},
    {Gauge::server_loop_lag, {"server_loop_lag", "s", "how late the server's event loops were"}},
    {Gauge::server_connections, {"server_connections", "", "connections that the server counts"}},
    {Gauge::server_silence,
     {"server_silence", "s", "longest time in which nothing came from the server"}},
    {Gauge::machine_busy, {"machine_busy", "", "share of all cores that the machine used"}},
    {Gauge::machine_steal,
     {"machine_steal", "", "share of all cores that the hypervisor gave to others"}},
}};
static_assert(in_order(gauge_rows));

bool largest_counts(Gauge gauge) {
    return gauge == Gauge::worker_cpu_max || gauge == Gauge::worker_wait ||
           gauge == Gauge::server_wait || gauge == Gauge::server_loop_lag ||
           gauge == Gauge::machine_busy || gauge == Gauge::machine_steal;
}

/// The server was silent only as long as all workers heard nothing.
bool smallest_counts(Gauge gauge) { return gauge == Gauge::server_silence; }

template <class Rows, class Visit>
void for_each_named(const json::object& values, const Rows& rows, Visit visit) {
    for (const auto& [id, its_info] : rows)
        if (const auto* value = values.if_contains(its_info.name)) visit(id, *value);
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

const MeasureInfo& info(Count count) { return count_rows[static_cast<std::size_t>(count)].info; }
const MeasureInfo& info(Timing timing) {
    return timing_rows[static_cast<std::size_t>(timing)].info;
}
const MeasureInfo& info(Gauge gauge) { return gauge_rows[static_cast<std::size_t>(gauge)].info; }

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
    for (const auto& [id, its_info] : count_rows)
        if (const auto many = measurements[id]; many > 0) counts[its_info.name] = many;
    json::object timings;
    for (const auto& [id, its_info] : timing_rows)
        if (const auto& times = measurements[id]; !times.empty())
            timings[its_info.name] = json_of(times);
    json::object gauges;
    for (const auto& [id, its_info] : gauge_rows)
        if (const double value = measurements[id]; value >= 0) gauges[its_info.name] = value;
    return {{"counts", std::move(counts)},
            {"timings", std::move(timings)},
            {"gauges", std::move(gauges)}};
}

Measurements measurements_from(const json::value& value) try {
    Measurements measurements;
    const auto& object = value.as_object();
    for_each_named(object.at("counts").as_object(), count_rows,
                   [&](Count count, const json::value& many) {
                       measurements.add(count, many.to_number<std::uint64_t>());
                   });
    for_each_named(object.at("timings").as_object(), timing_rows,
                   [&](Timing timing, const json::value& times) {
                       measurements.add_all(timing, histogram_of(times));
                   });
    for_each_named(object.at("gauges").as_object(), gauge_rows,
                   [&](Gauge gauge, const json::value& level) {
                       measurements.set(gauge, level.to_number<double>());
                   });
    return measurements;
} catch (const std::exception& error) {
    throw std::runtime_error(std::string("no measurements: ") + error.what());
}

}  // namespace pulsegate::load
