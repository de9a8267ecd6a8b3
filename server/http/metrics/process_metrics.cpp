// The event loops, the program, its process and its certificates.
#include <string>

#include "server/base/version.h"
#include "server/http/metrics/metric_groups.h"
#include "server/http/metrics/process_usage.h"
#include "server/http/questions/admin_host.h"
#include "server/limits/admission.h"

namespace pulsegate {

namespace {

void add_loop_families(Families& families) {
    auto& lag = families.histograms("pulsegate_loop_lag_seconds",
                                    "Lag of the event loop: how late its ticks ran.");
    for (std::size_t shard = 0; shard < families.shards().size(); ++shard)
        Families::add(lag, {Families::shard_label(shard)}, families.shards()[shard].counters.lag);
    families.gauge("pulsegate_loop_lag_last_seconds", "Lag of the event loop at its last tick.",
                   [](const ShardStatus& shard) {
                       return static_cast<double>(shard.counters.lag_last) / 1000;
                   });
    auto& slots = families.gauges("pulsegate_wheel_slot_nodes",
                                  "Connections waiting in each slot of the timing wheel.");
    for (std::size_t shard = 0; shard < families.shards().size(); ++shard)
        for (std::size_t slot = 0; slot < Wheel::slots; ++slot)
            Families::add(slots, {Families::shard_label(shard), {"slot", std::to_string(slot)}},
                          std::uint64_t{families.shards()[shard].slots[slot]});
}

void add_room_families(Families& families, const Admission& admission) {
    families.gateway_gauge("pulsegate_memory_bytes",
                           "Resident memory, compared with the memory budget.",
                           static_cast<double>(admission.memory()));
    families.gateway_gauge("pulsegate_memory_budget_bytes",
                           "Memory beyond which new clients are refused.",
                           static_cast<double>(admission.memory_budget()));
    families.gateway_gauge(
        "pulsegate_open_files_headroom",
        "Connections left under the limit on open files, or max-connections.",
        static_cast<double>(admission.capacity()) - static_cast<double>(admission.open()));
}

void add_certificate_families(Families& families, const AdminHost& host) {
    if (!host.certificate_ends) return;
    const auto certificates = host.certificate_ends();
    if (certificates.empty()) return;
    auto& ends = families.gauges("pulsegate_certificate_expiry_timestamp_seconds",
                                 "When a certificate that is in use, or the first one of its chain "
                                 "to expire, stops being valid.");
    for (const CertificateEnd& certificate : certificates)
        Families::add(ends, {{"file", certificate.file}}, static_cast<double>(certificate.end));
}

/// Adds the metrics of the process, with the names that all programs use.
void add_process_families(Families& families) {
    const ProcessUsage usage = process_usage();
    families.gateway_counter("process_cpu_seconds_total",
                             "User and system CPU time spent in seconds.", usage.cpu_seconds);
    families.gateway_gauge("process_resident_memory_bytes", "Resident memory size in bytes.",
                           static_cast<double>(usage.resident_memory));
    families.gateway_gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.",
                           static_cast<double>(usage.virtual_memory));
    families.gateway_gauge("process_open_fds", "Number of open file descriptors.",
                           static_cast<double>(usage.open_files));
    families.gateway_gauge("process_max_fds", "Maximum number of open file descriptors.",
                           static_cast<double>(usage.max_files));
    families.gateway_gauge("process_threads", "Number of threads.",
                           static_cast<double>(usage.threads));
    families.gateway_gauge("process_start_time_seconds",
                           "Start time of the process since the Unix epoch in seconds.",
                           usage.start_time);
}

}  // namespace

void add_process_metrics(Families& families, const ApiContext& api) {
    add_loop_families(families);
    add_room_families(families, api.admission);
    add_certificate_families(families, api.host);
    Families::add(families.gauges("pulsegate_build_info", "Always 1; the label has the version."),
                  {{"version", program_version()}}, 1.0);
    add_process_families(families);
}

}  // namespace pulsegate
