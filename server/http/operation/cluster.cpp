#include "server/http/operation/cluster.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "server/cluster/membership.h"
#include "server/cluster/rules/incarnation.h"
#include "server/http/questions/shard_questions.h"
#include "server/limits/drain.h"

namespace pulsegate {

namespace json = boost::json;
using prometheus::MetricFamily;
using prometheus::MetricType;

namespace {

std::int64_t milliseconds(std::chrono::milliseconds time) { return time.count(); }

/// Adjacent partitions with the same owner and epoch are shown as one range.
json::array partitions_json(const ClusterView& view) {
    json::array ranges;
    const auto& all = view.partitions;
    for (std::size_t first = 0; first < all.size();) {
        std::size_t end = first + 1;
        while (end < all.size() && all[end].owner == all[first].owner &&
               all[end].epoch == all[first].epoch)
            ++end;
        ranges.push_back(json::object{{"first", first},
                                      {"last", end - 1},
                                      {"owner", all[first].owner},
                                      {"epoch", all[first].epoch}});
        first = end;
    }
    return ranges;
}

void add_known_clients(json::object& row, const NodeClients& known) {
    if (known.is_edge) row["edge"] = *known.is_edge;
    if (known.is_linked) row["linked"] = *known.is_linked;
    if (known.drains) row["draining"] = *known.drains;
    if (known.clients) row["clients"] = *known.clients;
}

json::array nodes_json(const ClusterView& view, const ClientsByNode& clients) {
    json::array nodes;
    for (const ClusterView::Node& node : view.nodes) {
        json::object row{{"name", node.name},
                         {"incarnation", node.incarnation},
                         {"link", node.link_address},
                         {"version", node.version},
                         {"beat_age_ms", milliseconds(node.beat_age)},
                         {"owner", node.is_owner},
                         {"condemned", node.is_condemned}};
        const auto known = node.is_condemned ? clients.end() : clients.find(node.name);
        if (known != clients.end()) add_known_clients(row, known->second);
        nodes.push_back(std::move(row));
    }
    return nodes;
}

/// The owner knows its own clients, and those of the edges that are linked to it. If a shard does
/// not answer, it does not know all of them.
ClientsByNode known_to_owner(const ClusterView& view, const DrainState& drain,
                             const std::vector<std::optional<ShardStatus>>& shards) {
    ClientsByNode known;
    for (const ClusterView::Node& node : view.nodes) known[node.name].is_linked = false;
    NodeClients& own = known[std::string(node_name_of(view.self))];
    own = {.is_edge = false, .drains = drain.phase() != DrainState::Phase::none, .clients = 0};
    for (const auto& shard : shards) {
        if (!shard) continue;
        *own.clients += shard->connected - std::min(shard->connected, shard->elsewhere);
        for (const auto& [incarnation, clients] : shard->edges) {
            NodeClients& edge = known[std::string(node_name_of(incarnation))];
            edge = {.is_edge = true, .is_linked = true, .clients = edge.clients.value_or(0)};
            *edge.clients += clients;
        }
    }
    if (!std::ranges::all_of(shards, &std::optional<ShardStatus>::has_value))
        for (auto& [name, of_node] : known) of_node.clients.reset();
    return known;
}

json::object redis_json(const ClusterView::Redis& redis) {
    json::object state{{"address", redis.address},
                       {"run_id", redis.run_id},
                       {"reachable", redis.away.empty()},
                       {"last_answer_age_ms", milliseconds(redis.last_answer_age)},
                       {"used_memory", redis.used_memory},
                       {"max_memory", redis.max_memory},
                       {"replicas", redis.replicas}};
    if (!redis.away.empty()) state["why"] = redis.away;
    return state;
}

void add(std::vector<MetricFamily>& families, const char* name, const char* help, MetricType type,
         double value) {
    MetricFamily& family = families.emplace_back();
    family.name = name;
    family.help = help;
    family.type = type;
    auto& metric = family.metric.emplace_back();
    (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
}

void add_link_certificates(std::vector<MetricFamily>& families, const ClusterView& view) {
    if (view.certificates.empty()) return;
    MetricFamily& family = families.emplace_back();
    family.name = "pulsegate_link_certificate_expiry_timestamp_seconds";
    family.help =
        "When this node's certificate for other nodes, or the CA that signed it, stops being "
        "valid.";
    family.type = MetricType::Gauge;
    std::map<std::string, double> ends;  // one file may be both
    for (const CertificateEnd& certificate : view.certificates) {
        const auto end = static_cast<double>(certificate.end);
        double& earliest = ends.try_emplace(certificate.file, end).first->second;
        earliest = std::min(earliest, end);
    }
    for (const auto& [file, end] : ends) {
        auto& metric = family.metric.emplace_back();
        metric.label = {{"file", file}};
        metric.gauge.value = end;
    }
}

}  // namespace

boost::asio::awaitable<ApiReply> show_cluster(const ApiContext& api, const ApiRequest&) {
    if (!api.cluster)
        co_return api_refusal(ApiError::no_cluster, "this node is not in a cluster: see --cluster");
    const auto shards =
        co_await api.shards.ask_all([](ShardAdmin& shard) { return shard.status(); });
    const ClusterView view = api.cluster->view();
    co_return api_reply(cluster_json(view, known_to_owner(view, api.drain, shards)));
}

json::object cluster_json(const ClusterView& view, const ClientsByNode& clients) {
    const ClusterView::Counters& counters = view.counters;
    return {{"self", view.self},
            {"data_set", view.birth},
            {"may_serve", view.may_serve},
            {"nodes", nodes_json(view, clients)},
            {"partitions", partitions_json(view)},
            {"redis", redis_json(view.redis)},
            {"counters",
             {{"units", counters.units},
              {"bytes", counters.bytes},
              {"reconnects", counters.reconnects},
              {"fenced", counters.fenced},
              {"confirms", counters.confirms},
              {"rewrites", counters.rewrites},
              {"tail_bytes", counters.tail_bytes},
              {"tail_bytes_dropped", counters.tail_bytes_dropped}}}};
}

std::vector<MetricFamily> cluster_metrics(const ClusterView& view) {
    const ClusterView::Counters& counters = view.counters;
    const auto owned = std::ranges::count(view.partitions, view.self, &ClusterView::Owned::owner);
    std::vector<MetricFamily> families;
    const auto gauge = [&](const char* name, const char* help, auto value) {
        add(families, name, help, MetricType::Gauge, static_cast<double>(value));
    };
    const auto counter = [&](const char* name, const char* help, std::uint64_t value) {
        add(families, name, help, MetricType::Counter, static_cast<double>(value));
    };
    gauge("pulsegate_cluster_nodes", "Nodes of the cluster that beat.",
          std::ranges::count(view.nodes, false, &ClusterView::Node::is_condemned));
    gauge("pulsegate_cluster_partitions_owned", "Partitions that this node owns; 0: it stands by.",
          owned);
    gauge("pulsegate_cluster_redis_reachable", "1: Redis answers.",
          view.redis.away.empty() ? 1 : 0);
    gauge("pulsegate_cluster_redis_answer_age_seconds", "Time since the last answer of Redis.",
          static_cast<double>(view.redis.last_answer_age.count()) / 1000);
    gauge("pulsegate_cluster_redis_used_memory_bytes", "Memory that Redis uses.",
          view.redis.used_memory);
    gauge("pulsegate_cluster_redis_max_memory_bytes", "Memory that Redis may use; 0: no limit.",
          view.redis.max_memory);
    gauge("pulsegate_cluster_tail_bytes",
          "Bytes that are kept to be written again if Redis loses its latest changes.",
          counters.tail_bytes);
    counter("pulsegate_cluster_tail_dropped_bytes_total",
            "Bytes of these for which there was no room.", counters.tail_bytes_dropped);
    counter("pulsegate_cluster_units_total", "Changes that Redis has taken.", counters.units);
    counter("pulsegate_cluster_unit_bytes_total", "Bytes of these.", counters.bytes);
    counter("pulsegate_cluster_redis_reconnects_total", "Connections to Redis after the first.",
            counters.reconnects);
    counter("pulsegate_cluster_confirms_total",
            "How often a restarted or new primary was shown who owns the partitions.",
            counters.confirms);
    counter("pulsegate_cluster_rewrites_total", "How often an emptied Redis was filled again.",
            counters.rewrites);
    add_link_certificates(families, view);
    return families;
}

}  // namespace pulsegate
