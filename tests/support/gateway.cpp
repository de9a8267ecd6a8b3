#include "tests/support/gateway.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/tcp.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <future>
#include <mutex>
#include <utility>

#include "protocol/decode.h"
#include "server/handover/gateway_pieces.h"
#include "server/handover/standstill.h"
#include "server/server.h"
#include "server/session/terms/homes.h"
#include "server/shard/gateway_freeze.h"
#include "server/shard/shard.h"
#include "tests/support/patience.h"
#include "tests/support/wire.h"

namespace pulsegate {

namespace {

auto log_lines() {
    static const auto lines = [] {
        auto sink = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(1000);
        spdlog::set_default_logger(std::make_shared<spdlog::logger>("tests", sink));
        spdlog::set_level(spdlog::level::debug);
        return sink;
    }();
    return lines;
}

/// How many messages between shards may follow from a client's packet, each from the one before.
/// A watcher of everybody's presence that gets a change by mail while it lags has the most: the
/// change, its turn to be told more, and of each shard a query, a page and another turn. A message
/// to a shared subscription has four if a member goes meanwhile: to the group's shard, to the
/// member's, back, and to another's.
unsigned longest_chain(unsigned shards) { return 2 + 3 * shards; }

}  // namespace

Gateway::Gateway(const std::function<void(Config&)>& adjust) {
    log_lines();
    Config config;
    config.listen = {{ListenUrl::Scheme::mqtt, "127.0.0.1", 0},
                     {ListenUrl::Scheme::http, "127.0.0.1", 0}};
    config.shards = 2;
    // Tests reconnect all the time, and must not be banned or delayed for it.
    config.client_limits = {.ban_flaps = 0, .duel_takeovers = 0};
    config.max_message_rate = 0;
    config.max_byte_rate = 0;
    config.sender_property.clear();  // messages are compared with what was sent
    if (adjust) adjust(config);
    server_ = std::make_unique<Server>(config);
    rounds_ = longest_chain(config.shards);
    for (const auto& [url, open_to_anybody] : server_->listening())
        (url.scheme == ListenUrl::Scheme::mqtt ? mqtt_port_
         : url.is_websocket()                  ? ws_port_
                                               : http_port_) = url.port;
    server_->start();
}

Gateway::~Gateway() = default;

void Gateway::stop() { server_->stop(); }

void Gateway::announce_shutdown() const {
    server_->on_every_shard([](Shard& shard) { shard.announce_shutdown(false); });
}

std::uint64_t Gateway::work() const {
    std::atomic<std::uint64_t> sum = 0;
    server_->on_every_shard([&](Shard& shard) { sum += shard.work(); });
    return sum;
}

std::size_t Gateway::output_waiting() const {
    std::atomic<std::size_t> sum = 0;
    server_->on_every_shard([&](Shard& shard) { sum += shard.status().backlog; });
    return sum;
}

void Gateway::settle() const {
    // Mail is read in the order of its arrival. So behind a round through all shards lies only what
    // was sent by mail that was read in it: after n rounds, every chain of n messages has ended.
    for (unsigned i = 0; i < rounds_; ++i)
        server_->on_every_shard([](Shard& shard) { shard.end_turn(); });
}

bool Gateway::has_logged(std::string_view text) const {
    const auto lines = log_lines()->last_raw();
    return std::ranges::any_of(lines, [&](const auto& line) {
        const std::string_view payload(line.payload.data(), line.payload.size());
        return line.time >= began_ && payload.find(text) != std::string_view::npos;
    });
}

std::string at_home(unsigned shard, std::string_view stem) {
    std::string name(stem);
    for (int i = 2; Homes(2).shard_of(name) != shard; ++i)
        name = std::string(stem) + std::to_string(i);
    return name;
}

void Gateway::pass(StoppedClock& clock, Millis time) const {
    constexpr Millis step = tick_length;  // no shard misses a tick, as it would not otherwise
    for (Millis left = time; left > 0; left -= step) {
        settle();  // what came before is done at its own time
        clock.advance(std::min(left, step));
        server_->on_every_shard([](Shard& shard) { shard.advance(); });
    }
    settle();
}

void Gateway::stand_still(StoppedClock& clock, Millis time) const {
    settle();
    server_->on_every_shard([&](Shard& shard) { shard.advance(); });
    clock.advance(time);
    server_->on_every_shard([](Shard& shard) { shard.advance(); });
    settle();
}

std::vector<Shard*> Gateway::shards() const {
    std::vector<Shard*> all;
    std::mutex mutex;
    server_->on_every_shard([&](Shard& shard) {
        const std::lock_guard lock(mutex);
        all.push_back(&shard);
    });
    std::ranges::sort(all, {}, &Shard::index);
    return all;
}

bool Gateway::freeze() const {
    const auto is_frozen = std::make_shared<std::promise<bool>>();
    auto answer = is_frozen->get_future();
    GatewayFreeze::begin(shards(), {.for_logins = 200, .for_all = 20'000},
                         [is_frozen](bool frozen) { is_frozen->set_value(frozen); });
    return answer.get();
}

void Gateway::thaw() const {
    server_->on_every_shard([](Shard& shard) { shard.thaw(); });
}

void Gateway::fail_to_upgrade() const {
    const GatewayPieces pieces = server_->pieces();
    Standstill standstill(pieces, std::chrono::steady_clock::now() + test_patience);
    standstill.close_store();
}

std::vector<Gateway::Passing> Gateway::passing(std::size_t* left) const {
    std::vector<Passing> all;
    for (Shard* const each : shards()) {
        const auto keep = [&all](int socket, std::string_view state) {
            all.push_back({UniqueFd(::dup(socket)), std::string(state)});
        };
        ExportCounts counts;
        each->call([&](Shard& shard) { counts = shard.upgrade().export_clients(keep); }).get();
        for (const auto& [reason, clients] : counts.left)
            if (left) *left += clients;
    }
    return all;
}

std::size_t Gateway::adopt(std::vector<Passing> clients) const {
    const auto all = shards();
    std::size_t adopted = 0;
    for (Passing& each : clients) {
        const auto home = ShardUpgrade::home_of(each.state, all.size());
        ShardUpgrade::Adoption outcome{};
        const auto adopt = [&](Shard& shard) {
            outcome = shard.upgrade().adopt(std::move(each.socket), each.state);
        };
        all[home]->call(adopt).get();
        adopted += outcome == ShardUpgrade::Adoption::adopted;
    }
    server_->on_every_shard([](Shard& shard) {
        shard.upgrade().finish_adoption();
        shard.thaw();
    });
    return adopted;
}

void Gateway::await_connections(std::size_t count) const {
    const Stopwatch waiting;
    while (true) {
        std::atomic<std::size_t> connections = 0;
        server_->on_every_shard([&](Shard& shard) { connections += shard.status().connections; });
        if (connections == count) return;
        REQUIRE_MESSAGE(waiting.elapsed() < test_patience, "it has ", connections.load(),
                        " connections, and not ", count);
    }
}

Conversation::Conversation(const Gateway& gateway, int receive_buffer)
    : Conversation(gateway.mqtt_port(), receive_buffer) {
    gateway_ = &gateway;
}

Conversation::Conversation(std::uint16_t port, int receive_buffer)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    REQUIRE(socket_ >= 0);
    const timeval limit{.tv_sec = test_patience.count(), .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    const int on = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (receive_buffer > 0)
        setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
}

Conversation::Conversation(Conversation&& other) noexcept
    : gateway_(other.gateway_), socket_(std::exchange(other.socket_, -1)) {}

Conversation::~Conversation() { close(); }

void Conversation::close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

void Conversation::reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
}

void Conversation::close_writing() { ::shutdown(socket_, SHUT_WR); }

Conversation& Conversation::send(std::string_view notation) { return send_bytes(wire(notation)); }

Conversation& Conversation::send_bytes(std::string_view bytes) {
    while (!bytes.empty()) {
        const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        REQUIRE_MESSAGE(sent > 0, "the gateway takes no more bytes");
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return *this;
}

/// Returns fewer bytes than `size` if the gateway closed or sent no more in time.
std::string Conversation::read(std::size_t size) {
    std::string bytes(size, '\0');
    std::size_t got = 0;
    while (got < size) {
        const auto more = ::recv(socket_, bytes.data() + got, size - got, 0);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) break;
        got += static_cast<std::size_t>(more);
    }
    bytes.resize(got);
    return bytes;
}

/// A PUBACK or PUBREC which says that nobody gets the message passes for one that says nothing:
/// most tests publish without a subscriber, and don't speak of that.
void Conversation::pass_over_unmatched(std::string_view expected, std::string& got) {
    for (std::size_t at = 0; at + 4 <= expected.size();) {
        const bool is_plain =
            (expected[at] == '\x40' || expected[at] == '\x50') && expected[at + 1] == 2;
        if (is_plain && got.size() >= at + 4 && got[at + 1] == 3) {
            got += read(1);
            if (got[at + 4] == 0x10) got.erase(at + 4, 1)[at + 1] = 2;
        }
        const Frame frame = next_frame(as_bytes(expected).subspan(at), std::size_t{1} << 28);
        if (frame.status != Frame::Status::complete) return;
        at += frame.size;
    }
}

Conversation& Conversation::expect(std::string_view notation) {
    const std::string expected = wire(notation);
    std::string got = read(expected.size());
    pass_over_unmatched(expected, got);
    REQUIRE_MESSAGE(got == expected, "expected: ", std::string(notation),
                    "\n      that is: ", hex(expected), "\n          got: ", hex(got));
    return *this;
}

std::string Conversation::rest() {
    std::string bytes;
    char buffer[16 * 1024];
    while (true) {
        const auto more = ::recv(socket_, buffer, sizeof buffer, 0);
        if (more < 0 && errno == EINTR) continue;
        REQUIRE_MESSAGE((more >= 0 || errno == ECONNRESET), "the gateway does not close");
        if (more <= 0) return bytes;
        bytes.append(buffer, static_cast<std::size_t>(more));
    }
}

Conversation& Conversation::expect_close() {
    const std::string bytes = rest();
    REQUIRE_MESSAGE(bytes.empty(), "before the close: ", hex(bytes));
    return *this;
}

Conversation& Conversation::expect_close(Reason reason) {
    const std::string bytes = rest();
    const Decoded decoded = decode(as_bytes(bytes), Version::v5_0, Sender::server);
    const auto* packet = std::get_if<Packet>(&decoded);
    const auto* disconnect = packet ? std::get_if<Disconnect>(packet) : nullptr;
    REQUIRE_MESSAGE(disconnect, "no DISCONNECT before the close: ", hex(bytes));
    REQUIRE_MESSAGE(disconnect->reason == reason, "expected DISCONNECT: ", name(reason),
                    "; got: ", hex(bytes));
    CHECK(disconnect->properties.text(Property::reason_string));
    return *this;
}

bool Conversation::silent() const {
    char byte;
    return ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

Conversation& Conversation::expect_nothing() {
    REQUIRE(gateway_);
    send("c0 00").expect("d0 00");  // its own shard has read what it sent
    gateway_->settle();
    return send("c0 00").expect("d0 00");
}

Conversation& Conversation::login(std::string_view client, Version version,
                                  std::uint16_t keepalive) {
    const auto id = "s'" + std::string(client) + "'";
    const auto alive = " k" + std::to_string(keepalive) + " ";
    if (version == Version::v3_1_1)
        return send("10 r s'MQTT' 04 02" + alive + id).expect("20 r 00 00");
    return send("10 r s'MQTT' 05 02" + alive + "[ ] " + id)
        .expect("20 r 00 00 [ " + std::string(promises) + " ]");
}

std::string Conversation::packet() {
    std::string bytes = read(2);
    while (true) {
        const Frame frame = next_frame(as_bytes(bytes), std::size_t{1} << 28);
        REQUIRE(frame.status != Frame::Status::bad);
        if (frame.status == Frame::Status::complete) return bytes;
        const auto wanted = frame.size > bytes.size() ? frame.size - bytes.size() : 1;
        const std::string more = read(wanted);
        REQUIRE_MESSAGE(more.size() == wanted, "no whole packet: ", hex(bytes + more));
        bytes += more;
    }
}

Publish published(const std::string& packet, Version version) {
    const Decoded decoded = decode(as_bytes(packet), version, Sender::server);
    const auto* value = std::get_if<Packet>(&decoded);
    const auto* publish = value ? std::get_if<Publish>(value) : nullptr;
    REQUIRE_MESSAGE(publish, "no PUBLISH: ", hex(packet));
    return *publish;
}

void at_once(const std::vector<std::function<void()>>& scenes) {
    std::vector<std::future<void>> running;
    for (const auto& scene : scenes) running.push_back(std::async(std::launch::async, scene));
    for (auto& scene : running) scene.get();
}

}  // namespace pulsegate
