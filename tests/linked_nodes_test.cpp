// Clients of an edge and of its home get each message, and each of QoS 2 once, while the link
// between the nodes delays bytes, is cut at any byte and begins anew, and while homes die.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/decode.h"
#include "server/cluster/link/frame_stream.h"
#include "server/edge/link_exchange.h"
#include "server/server.h"
#include "server/shard/shard.h"
#include "tests/support/link_ends.h"
#include "tests/support/patience.h"
#include "tests/support/quiet_log.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wire.h"

using namespace pulsegate;
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

class Dice {
public:
    explicit Dice(unsigned seed) : random_(seed) {}
    /// A number below `count`.
    unsigned operator()(std::size_t count) { return static_cast<unsigned>(random_() % count); }
    bool is_one_in(unsigned count) { return (*this)(count) == 0; }

private:
    std::mt19937 random_;
};

std::string bytes_at(tcp::socket& socket) {
    boost::system::error_code error;
    std::string bytes(socket.available(error), '\0');
    if (!bytes.empty()) bytes.resize(socket.read_some(asio::buffer(bytes), error));
    return bytes;
}

// -- the nodes and their link --

struct LinkedNode {
    LinkedNode(bool is_edge, const std::string& data)
        : server(config(is_edge, data), {.is_edge = is_edge}) {
        server.start();
    }
    ~LinkedNode() { server.stop(); }

    static Config config(bool is_edge, const std::string& data) {
        Config config;
        config.listen = {{ListenUrl::Scheme::mqtt, "127.0.0.1", 0}};
        config.shards = is_edge ? 1 : 2;
        config.admin_socket = "none";
        config.data = data;
        config.fsync = Fsync::never;  // the machine does not fail
        config.client_limits = {.ban_flaps = 0, .duel_takeovers = 0};
        config.max_message_rate = 0;
        config.max_byte_rate = 0;
        return config;
    }
    std::uint16_t port() const { return server.listening().front().url.port; }
    /// Handles what has arrived, and some of what follows from that.
    void go_on() {
        server.on_every_shard([](Shard& shard) { shard.end_turn(); });
    }
    void tick() {
        server.on_every_shard([](Shard& shard) { shard.advance(); });
    }

    Server server;
};

/// A connection of the link. It passes bytes on when the test says so. Its end loses the others.
class SlowWire {
public:
    explicit SlowWire(asio::io_context& io) : SlowWire(connected_pair(io), connected_pair(io)) {}

    std::shared_ptr<LinkSocket> near_end() { return link_socket(std::move(ends_[0])); }
    std::shared_ptr<LinkSocket> far_end() { return link_socket(std::move(ends_[1])); }

    void pass(Dice& dice) {
        for (const std::size_t from : {0, 1}) {
            held_[from] += bytes_at(ours_[from]);
            pass(from, dice(held_[from].size() + 1));
        }
    }
    void pass_all() {
        for (const std::size_t from : {0, 1}) {
            held_[from] += bytes_at(ours_[from]);
            pass(from, held_[from].size());
        }
    }

private:
    using Sockets = std::pair<tcp::socket, tcp::socket>;
    SlowWire(Sockets near, Sockets far)
        : ends_{std::move(near.first), std::move(far.first)},
          ours_{std::move(near.second), std::move(far.second)} {}

    void pass(std::size_t from, std::size_t size) {
        boost::system::error_code error;  // the node may have given the connection up
        asio::write(ours_[1 - from], asio::buffer(held_[from].data(), size), error);
        held_[from].erase(0, size);
    }

    std::array<tcp::socket, 2> ends_;
    std::array<tcp::socket, 2> ours_;
    std::array<std::string, 2> held_;
};

class TestedLink {
public:
    TestedLink(asio::io_context& io, LinkExchange& edge, LinkExchange& home, std::uint64_t number)
        : io_(io), edge_(edge), home_(home), wire_(std::in_place, io) {
        const FrameStream::Limits limits{.tick = std::chrono::minutes(1)};
        near_ = FrameStream::open(wire_->near_end(), {"home#1", "birth", false, 2}, number, limits);
        far_ = FrameStream::open(wire_->far_end(), {"edge#1", "birth", false, 1}, number, limits);
        home_.add(far_);
        edge_.add(near_);
    }
    ~TestedLink() {
        edge_.end_all("a test's reason");
        home_.end_all("a test's reason");
        go_on();
    }

    void pass(Dice& dice) {
        if (wire_) wire_->pass(dice);
        go_on();
    }
    void pass_all() {
        if (!wire_) connect();
        wire_->pass_all();
        go_on();
    }
    bool is_connected() const { return wire_.has_value(); }
    void cut() { wire_.reset(); }
    void connect() {
        wire_.emplace(io_);
        const std::uint64_t received = near_->received();
        CHECK(far_->resume(wire_->far_end(), received));
        CHECK(near_->resume(wire_->near_end(), far_->received()));
    }

private:
    void go_on() {
        io_.restart();  // it may have had nothing to do before
        io_.poll();
    }

    asio::io_context& io_;
    LinkExchange& edge_;
    LinkExchange& home_;
    std::optional<SlowWire> wire_;
    std::shared_ptr<FrameStream> near_, far_;
};

// -- the clients --

/// What was sent, and what has come of it.
struct Promised {
    std::string topic;
    std::size_t from;
    std::size_t to;
    bool is_exact;  ///< of QoS 2
    Millis due;
    bool is_delayed;
    bool is_acknowledged = false;
    int received = 0;
};
using Promises = std::vector<Promised>;

/// A client of MQTT 3.1.1 with a kept session. It repeats what was not acknowledged.
class LinkClient {
public:
    LinkClient(asio::io_context& io, std::size_t number, Promises& promises)
        : io_(io), number_(number), name_("c" + std::to_string(number)), promises_(promises) {}

    bool is_connected() const { return socket_.has_value(); }
    bool is_at(std::uint16_t port) const { return socket_ && port_ == port; }
    bool is_here() const { return socket_ && has_connack_ && has_subscribed_; }
    bool is_idle() const { return is_here() && open_.empty(); }

    void connect(std::uint16_t port) {
        socket_.emplace(io_);
        boost::system::error_code error;
        socket_->connect({asio::ip::address_v4::loopback(), port}, error);
        if (error) return lose();
        port_ = port;
        has_connack_ = false;
        input_.clear();
        came_here_.clear();
        say("10 r s'MQTT' 04 00 k0 s'" + name_ + "'");
    }
    void lose() { socket_.reset(); }

    void publish(std::size_t to, bool is_exact, unsigned delay) {
        const std::string topic = "to/c" + std::to_string(to);
        promises_.push_back(
            {.topic = delay == 0 ? topic : fmt::format("$delayed/{}/{}", delay, topic),
             .from = number_,
             .to = to,
             .is_exact = is_exact,
             .due = monotonic_now() + Millis{delay} * 1000,
             .is_delayed = delay > 0});
        open_.push_back({.packet_id = ++last_id_, .message = promises_.size() - 1});
        send(open_.back(), false);
    }

    /// Reads what has come, and handles up to so many packets. False: there were none.
    bool handle(std::size_t most) {
        if (!socket_) return false;
        input_ += bytes_at(*socket_);
        std::size_t handled = 0;
        for (; handled < most; ++handled) {
            const Frame frame = next_frame(as_bytes(input_), 1 << 20, Version::v3_1_1);
            if (frame.status != Frame::Status::complete) break;
            const std::string packet = input_.substr(0, frame.size);
            input_.erase(0, frame.size);
            const auto decoded = decode(as_bytes(packet), Version::v3_1_1, Sender::server);
            REQUIRE(std::holds_alternative<Packet>(decoded));
            std::visit([&](const auto& each) { take(each); }, std::get<Packet>(decoded));
            if (!socket_) return true;
        }
        if (handled == 0 && has_ended()) lose();
        return handled > 0;
    }

private:
    struct Open {
        std::uint16_t packet_id;
        std::size_t message;
        bool is_received = false;
    };

    void say(const std::string& notation) {
        boost::system::error_code error;  // it is noticed when there is nothing more to read
        asio::write(*socket_, asio::buffer(wire(notation)), error);
    }
    bool has_ended() {
        char byte = 0;
        const auto got = ::recv(socket_->native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        return got == 0 || (got < 0 && errno != EAGAIN);
    }
    void send(const Open& open, bool again) {
        if (!is_here()) return;
        const Promised& message = promises_[open.message];
        if (open.is_received) return say(fmt::format("62 r k{}", open.packet_id));
        say(fmt::format("3{:x} r s'{}' k{} '{}'", (message.is_exact ? 4 : 2) + (again ? 8 : 0),
                        message.topic, open.packet_id, open.message));
    }
    void begin() {
        for (const Open& each : open_) send(each, true);
    }

    void take(const Connack& connack) {
        if (connack.reason != Reason::success) return lose();
        CHECK(connack.session_present == has_subscribed_);
        has_connack_ = true;
        if (!has_subscribed_) return say("82 r k1 s'to/" + name_ + "' 02");
        begin();
    }
    void take(const Suback&) {
        has_subscribed_ = true;
        begin();
    }
    void take(const Publish& publish) {
        const bool is_exact = publish.qos == QoS::exactly_once;
        // It is repeated over another connection only.
        if (is_exact) CHECK(came_here_.insert(publish.packet_id).second);
        if (!is_exact || unreleased_.insert(publish.packet_id).second) judge(publish);
        say(fmt::format("{} r k{}", is_exact ? "50" : "40", publish.packet_id));
    }
    void judge(const Publish& publish) {
        std::size_t number = 0;
        const std::string_view text = publish.payload;
        std::from_chars(text.data(), text.data() + text.size(), number);
        REQUIRE(number < promises_.size());
        Promised& message = promises_[number];
        CAPTURE(number);
        CHECK(message.to == number_);
        CHECK(monotonic_now() >= message.due);
        if (message.is_exact) CHECK(message.received == 0);
        if (message.received++ > 0 || message.is_delayed) return;
        CHECK(latest_[message.from] <= number);  // in order
        latest_[message.from] = number;
    }
    void take(const Puback& puback) { acknowledge(puback.packet_id, true); }
    void take(const Pubrec& pubrec) {
        acknowledge(pubrec.packet_id, false);
        say(fmt::format("62 r k{}", pubrec.packet_id));
    }
    void take(const Pubcomp& pubcomp) {
        std::erase_if(open_, [&](const Open& o) { return o.packet_id == pubcomp.packet_id; });
    }
    void take(const Pubrel& pubrel) {
        unreleased_.erase(pubrel.packet_id);
        came_here_.erase(pubrel.packet_id);
        say(fmt::format("70 r k{}", pubrel.packet_id));
    }
    template <class Other>
    void take(const Other&) {
        FAIL("a packet that nobody has asked for");
    }
    void acknowledge(std::uint16_t packet_id, bool completes) {
        const auto found = std::ranges::find(open_, packet_id, &Open::packet_id);
        if (found == open_.end()) return;
        promises_[found->message].is_acknowledged = true;
        found->is_received = true;
        if (completes) open_.erase(found);
    }

    asio::io_context& io_;
    const std::size_t number_;
    const std::string name_;
    Promises& promises_;
    std::optional<tcp::socket> socket_;
    std::uint16_t port_ = 0;
    std::string input_;
    bool has_connack_ = false;
    bool has_subscribed_ = false;
    std::uint16_t last_id_ = 1;
    std::list<Open> open_;
    std::set<std::uint16_t> unreleased_;
    std::set<std::uint16_t> came_here_;          ///< over this connection, and not released
    std::map<std::size_t, std::size_t> latest_;  ///< by sender
};

// -- the play --

class LinkedPlay {
public:
    explicit LinkedPlay(unsigned seed) : dice_(seed) {
        replace_home();
        for (std::size_t number = 0; number < 3; ++number)
            clients_.emplace_back(io_, number, promises_);
        CHECK(comes_true([&] { return go_on_well([](auto& each) { return each.is_here(); }); }));
    }

    void step() {
        switch (dice_(40)) {
            case 0:
            case 1:
            case 2: link_->cut(); break;
            case 3: begin_link(); break;
            case 4: one().lose(); break;
            case 5: pass_a_second(); break;
            default: act(one());
        }
        if (!link_->is_connected() && dice_.is_one_in(5)) link_->connect();
        if (dice_.is_one_in(2)) link_->pass(dice_);
        if (dice_.is_one_in(2)) edge_.go_on();
        if (dice_.is_one_in(2)) home_->go_on();
    }

    /// The home dies, so nobody hears from it any more. The next one has its store.
    void replace_home() {
        if (home_) {
            for (LinkClient& client : clients_)
                if (client.is_at(home_->port())) client.lose();
            home_->server.links().close();
            link_.reset();
            home_.reset();
        }
        home_.emplace(false, folder_.path("data"));
        begin_link();
    }

    /// Until nothing is under way any more. Then each client has all that was acknowledged.
    void finish() {
        const auto is_idle = [](auto& client) { return client.is_idle(); };
        CHECK(comes_true([&] { return go_on_well(is_idle); }));
        for (unsigned seconds = 0; seconds <= longest_delay + 1; ++seconds) pass_a_second();
        CHECK(comes_true([&] { return go_on_well(is_idle) && has_all(); }));
        for (LinkClient& client : clients_) client.lose();
        CHECK(comes_true([&] { return go_on_well(is_idle); }));
        for (int i = 0; i < 10; ++i) go_on_well(is_idle);  // what comes twice comes now
    }

    const Promises& promises() const { return promises_; }

private:
    static constexpr unsigned longest_delay = 3;

    LinkClient& one() { return clients_[dice_(clients_.size())]; }

    void begin_link() {
        link_.reset();
        link_.emplace(io_, edge_.server.links(), home_->server.links(), ++links_);
    }

    void act(LinkClient& client) {
        if (!client.is_connected()) return client.connect(random_port());
        if (client.is_here() && dice_.is_one_in(3))
            client.publish(dice_(clients_.size()), !dice_.is_one_in(3),
                           dice_.is_one_in(4) ? 1 + dice_(longest_delay) : 0);
        client.handle(1 + dice_(3));
    }
    std::uint16_t random_port() { return dice_.is_one_in(3) ? home_->port() : edge_.port(); }

    void pass_a_second() {
        clock_.advance(1000);
        edge_.tick();
        home_->tick();
    }

    /// Without further faults. Are all clients as they should be?
    template <class Condition>
    bool go_on_well(const Condition& is_met) {
        link_->pass_all();
        edge_.go_on();
        home_->go_on();
        bool are_all = true;
        for (LinkClient& client : clients_) {
            if (!client.is_connected()) client.connect(random_port());
            while (client.handle(100)) {
            }
            are_all = is_met(client) && are_all;
        }
        return are_all;
    }
    bool has_all() const {
        return std::ranges::all_of(promises_, [](const Promised& each) {
            return !each.is_acknowledged || each.received > 0;
        });
    }

    const QuietLog quiet_;
    StoppedClock clock_;
    Dice dice_;
    const TemporaryFolder folder_;
    Promises promises_;
    asio::io_context io_;
    LinkedNode edge_{true, ""};
    std::optional<LinkedNode> home_;
    std::optional<TestedLink> link_;
    std::uint64_t links_ = 0;
    std::deque<LinkClient> clients_;
};

}  // namespace

TEST_CASE("no message is lost or comes twice, whatever happens to the link of an edge") {
    const char* const asked = std::getenv("PULSEGATE_LINKED_PLAYS");
    const int plays = asked ? std::atoi(asked) : sanitized ? 1 : 2;
    for (int seed = 1; seed <= plays; ++seed) {
        CAPTURE(seed);
        LinkedPlay play(static_cast<unsigned>(seed));
        for (int step = 1; step <= 300; ++step) {
            play.step();
            if (step % 150 == 0) play.replace_home();
        }
        play.finish();
        CHECK(play.promises().size() > 20);
    }
}
