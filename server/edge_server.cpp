#include "server/edge_server.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "server/cluster/membership.h"
#include "server/edge/link_exchange.h"
#include "server/transport/channels/channel.h"

namespace pulsegate {

namespace {

constexpr auto dial_pause = std::chrono::milliseconds(500);

/// It has no data and no HTTP API: the standby's API answers. The home decides how much may wait
/// for a client. It does not see the window of bytes that it lets wait here, and the last packet
/// may go beyond this window.
Config edge_config(Config config) {
    constexpr std::size_t window = Channel::window;
    config.output_budget = std::max(config.output_budget, 2 * window + config.max_packet_size);
    config.cluster.redis.reset();
    config.webhook.url.reset();
    config.events.clear();
    config.data.clear();
    config.demo = false;
    config.admin_socket = "none";
    config.admin_token_file.clear();
    config.admin_tokens_file.clear();
    std::erase_if(config.listen, [](const ListenUrl& url) { return !url.for_clients(); });
    return config;
}

}  // namespace

EdgeServer::EdgeServer(const Config& config, Membership& cluster)
    : cluster_(cluster), server_(edge_config(config), {.is_edge = true}) {
    server_.start();
}

EdgeServer::~EdgeServer() = default;

/// If Redis shows that the owner goes on while this node can't reach it, its clients leave. If
/// the owner is dead, they stay: other nodes could not serve them either. The first rise of the
/// counter may be older than the loss of the link, so it proves nothing.
void EdgeServer::look_after_clients(const ClusterView::Node& owner) {
    constexpr unsigned proof_of_life = 3;
    const bool is_in_contact =
        server_.links().is_linked() || dialing_->is_told_to_wait.exchange(false);
    if (is_in_contact || owner.incarnation != unreached_.incarnation)
        unreached_ = {.incarnation = owner.incarnation, .beats = owner.beats};
    if (owner.beats == unreached_.beats) return;
    unreached_.beats = owner.beats;
    if (++unreached_.rises >= proof_of_life) server_.release_forwarded();
}

/// A link to a node that has lost the data ends when that node restarts.
void EdgeServer::look() {
    look_after_drain();
    server_.look_at_certificates();
    const ClusterView view = cluster_.view();
    const ClusterView::Node* const owner = other_owner(view);
    const auto now = std::chrono::steady_clock::now();
    if (!owner) return;
    look_after_clients(*owner);
    if (now < next_dial_ || dialing_->is_under_way) return;
    const bool is_other = owner->incarnation != home_;
    if (!is_other && server_.links().is_linked()) return;
    if (is_other) server_.links().end_all("another node serves now");
    home_ = owner->incarnation;
    next_dial_ = now + dial_pause;
    dialing_->is_under_way = true;
    cluster_.dial(
        {.address = owner->link_address, .incarnation = owner->incarnation}, server_.shards(),
        [links = server_.weak_links(), dialing = dialing_, name = owner->name](DialedHome dialed) {
            if (const auto exchange = links.lock(); exchange && dialed.stream) {
                spdlog::info("linked to node {}: clients of this node are served there", name);
                exchange->add(std::move(dialed.stream));
            } else if (exchange && dialed.why != dialing->obstacle) {
                spdlog::warn("no link to node {}: {}", name, dialed.why);
            }
            dialing->obstacle = std::move(dialed.why);
            dialing->is_told_to_wait = dialed.accepts_no_edges;
            dialing->is_under_way = false;  // only now `look` finds the link
        });
}

StandbyState EdgeServer::state() {
    const bool has_link = server_.links().is_linked();
    return {.is_edge = true,
            .is_linked = has_link && server_.drain().phase() == DrainState::Phase::none,
            .has_link = has_link,
            .connections = server_.admission().open(),
            .drain = &server_.drain(),
            .addresses = &server_.address_limits(),
            .api = &server_.api()};
}

bool EdgeServer::begin_drain(const DrainTerms& terms) {
    if (!terms.is_wanted() || server_.admission().open() == 0) return false;
    server_.announce_drain(terms);
    const auto leave_at =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(terms.notice);
    drain_ = {.leave_at = leave_at,
              .ends = leave_at + std::chrono::milliseconds(terms.over),
              .over = terms.over};
    return true;
}

void EdgeServer::look_after_drain() {
    if (!drain_ || drain_->leaves || std::chrono::steady_clock::now() < drain_->leave_at) return;
    drain_->leaves = true;
    if (drain_->over > 0) server_.begin_drain(drain_->over);
}

bool EdgeServer::has_drained() const {
    const bool is_over = std::chrono::steady_clock::now() >= drain_->ends;
    return drain_->leaves && (is_over || server_.admission().open() == 0);
}

std::vector<std::string> EdgeServer::reload(const Config& config) {
    return server_.reload(edge_config(config));
}

}  // namespace pulsegate
