#include "loadgen/observe/observer.h"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "loadgen/net/address.h"
#include "loadgen/observe/machine_load.h"
#include "loadgen/observe/metrics.h"
#include "loadgen/observe/server_process.h"

namespace pulsegate::load {

namespace {

constexpr Duration each_look = std::chrono::seconds(1);
constexpr Duration patience = std::chrono::milliseconds(900);  // with the server's metrics
constexpr Duration next_search = std::chrono::seconds(10);     // for a process that has ended

bool is_own(const SocketAddress& address) {
    if (address.loopback()) return true;
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) != 0) return false;
    bool found = false;
    for (const auto* each = all; each; each = each->ifa_next) {
        if (!each->ifa_addr || each->ifa_addr->sa_family != address.family()) continue;
        const socklen_t size =
            address.family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
        found = found || SocketAddress(each->ifa_addr, size).text() == address.text();
    }
    freeifaddrs(all);
    return found;
}

/// The address of the server on this machine; nothing if it is elsewhere.
std::optional<std::string> own_address(const Observer::Options& options) {
    try {
        for (const auto& address : resolve(options.host, options.port))
            if (is_own(address)) return address.text();
    } catch (const std::runtime_error&) {
        // The clients report this error.
    }
    return {};
}

/// Everything that an observer's thread looks at.
class Sight {
public:
    explicit Sight(const Observer::Options& options)
        : options_(options), address_(own_address(options)) {
        server_.on_this_machine = address_.has_value();
    }

    Measurements look(Time now) {
        Measurements seen;
        machine_.sample(seen);
        look_at_process(now, seen);
        look_at_metrics(seen);
        return seen;
    }

    const ServerDescription& server() const { return server_; }

private:
    void look_at_process(Time now, Measurements& seen) {
        if (!process_ && now >= search_) find_process(now);
        if (process_ && !process_->sample(now, seen)) process_.reset();
    }

    void find_process(Time now) {
        search_ = now + next_search;
        std::optional<std::uint32_t> pid;
        if (options_.pid != 0)
            pid = options_.pid;
        else if (address_ && options_.port != 0)
            pid = ServerProcess::listening_on(*address_, options_.port);
        if (!pid) return;
        process_.emplace(*pid);
        server_.pid = *pid;
        server_.command = process_->command();
    }

    void look_at_metrics(Measurements& seen) {
        if (options_.metrics.empty()) return;
        try {
            if (take_metrics(http_body({.url = options_.metrics, .within = patience}), seen))
                server_.metrics = options_.metrics;
        } catch (const std::runtime_error&) {
            // The metrics are missing in this second.
        }
    }

    const Observer::Options& options_;
    const std::optional<std::string> address_;
    MachineLoad machine_;
    std::optional<ServerProcess> process_;
    Time search_{};
    ServerDescription server_;
};

}  // namespace

Observer::Observer(Options options) : options_(std::move(options)), thread_([this] { run(); }) {}

Observer::~Observer() {
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
    }
    wake_.notify_one();
    thread_.join();
}

void Observer::run() {
    Sight sight(options_);
    Time next = Clock::now();
    std::unique_lock lock(mutex_);
    while (!stopped_) {
        lock.unlock();
        auto seen = sight.look(Clock::now());
        lock.lock();
        levels_ = std::move(seen);
        server_ = sight.server();
        next = std::max(next + each_look, Clock::now());
        wake_.wait_until(lock, next, [this] { return stopped_; });
    }
}

Measurements Observer::take_levels() {
    const std::lock_guard lock(mutex_);
    return std::exchange(levels_, {});
}

ServerDescription Observer::server() const {
    const std::lock_guard lock(mutex_);
    return server_;
}

}  // namespace pulsegate::load
