#include "server/cluster/link/node_link.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "server/base/machine.h"
#include "server/cluster/link/link_socket.h"

namespace pulsegate {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto answer_patience = 1000ms;
constexpr auto dial_patience = 2000ms;

std::string link_text(const asio::ip::tcp::endpoint& endpoint) {
    std::ostringstream text;
    text << endpoint;
    return text.str();
}

}  // namespace

NodeLink::NodeLink(const LinkSettings& settings, Millis pause, std::function<LinkHello()> hello)
    : pause_(pause),
      tls_(link_tls(settings)),
      certificates_(tls_ ? link_certificates(settings, tls_->native_handle())
                         : std::vector<CertificateEnd>()),
      hello_(std::move(hello)),
      listener_(io_, settings, tls_, hello_),
      address_(settings.address.empty() ? link_text(listener_.address()) : settings.address) {
    if (split_link_address(address_).first.empty() || address_.find(' ') != std::string::npos)
        throw std::runtime_error(fmt::format(
            "link-address: {} is not an address; write it as west.example:7883", address_));
    asio::co_spawn(io_, keep_asking(), asio::detached);
    thread_ = std::thread([this] {
        name_thread("links");
        io_.run();
    });
}

NodeLink::~NodeLink() {
    io_.stop();
    thread_.join();
}

void NodeLink::watch(std::set<std::string> addresses) {
    const std::lock_guard lock(mutex_);
    std::erase_if(watched_, [&](const auto& each) { return !addresses.contains(each.first); });
    for (const std::string& address : addresses) watched_.try_emplace(address);
}

std::optional<LinkReport> NodeLink::report(const std::string& address, Millis most) const {
    const std::lock_guard lock(mutex_);
    const auto found = watched_.find(address);
    if (found == watched_.end() || !found->second.asked) return {};
    if (*found->second.asked < boot_now() - most) return {};
    return found->second.report;
}

LinkReport NodeLink::ask(const std::string& address) {
    return asio::co_spawn(io_, probe_link(address, tls_, hello_(), answer_patience),
                          asio::use_future)
        .get();
}

void NodeLink::dial(HomeNode home, unsigned shards, std::function<void(DialedHome)> done) {
    asio::co_spawn(io_, dial_and_tell(std::move(home), shards, std::move(done)), asio::detached);
}

asio::awaitable<void> NodeLink::dial_and_tell(HomeNode home, unsigned shards,
                                              std::function<void(DialedHome)> done) {
    LinkHello self = hello_();
    self.shards = shards;
    asio::awaitable<DialedHome> dialing =
        dial_home(std::move(home), tls_, std::move(self), dial_patience);
    DialedHome dialed = co_await std::move(dialing);
    done(std::move(dialed));
}

void NodeLink::carry(HomeNode home, CarriedRequest request, UniqueFd socket) {
    asio::co_spawn(io_, carry_to(std::move(home), std::move(request), std::move(socket)),
                   asio::detached);
}

asio::awaitable<void> NodeLink::carry_to(HomeNode home, CarriedRequest request, UniqueFd socket) {
    asio::awaitable<LinkVisit> visiting = visit_link(home.address, tls_, dial_patience);
    LinkVisit visit = co_await std::move(visiting);
    const bool is_home = visit.report.state == LinkReport::State::answered &&
                         visit.report.hello.incarnation == home.incarnation;
    if (!is_home) co_return;
    request.node = hello_();
    const std::string line = to_request_line(request);
    asio::awaitable<boost::system::error_code> writing = visit.socket->write(line);
    if (co_await std::move(writing)) co_return;
    asio::awaitable<void> carrying = pulsegate::carry(std::move(visit.socket), std::move(socket));
    co_await std::move(carrying);
}

asio::awaitable<void> NodeLink::keep_asking() {
    asio::steady_timer pause(io_);
    for (;;) {
        std::vector<std::string> addresses;
        {
            const std::lock_guard lock(mutex_);
            for (const auto& [address, dated] : watched_) addresses.push_back(address);
        }
        // Asked one after the other: a caller that waits for an unreachable node needs all answers
        // anyway.
        for (const std::string& address : addresses) {
            asio::awaitable<void> asking = ask_watched(address);
            co_await std::move(asking);
        }
        pause.expires_after(pause_);
        co_await pause.async_wait(asio::use_awaitable);
    }
}

asio::awaitable<void> NodeLink::ask_watched(std::string address) {
    const Millis asked = boot_now();
    asio::awaitable<LinkReport> probing = probe_link(address, tls_, hello_(), answer_patience);
    LinkReport report = co_await std::move(probing);
    const std::lock_guard lock(mutex_);
    const auto found = watched_.find(address);
    if (found != watched_.end()) found->second = {std::move(report), asked};
}

}  // namespace pulsegate
