#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "server/base/files/socket_pair.h"
#include "server/cluster/link/node_link.h"
#include "server/cluster/serving_lease.h"
#include "tests/support/patience.h"
#include "tests/support/self_signed.h"
#include "tests/support/temporary_folder.h"

using namespace pulsegate;

namespace {

using State = LinkReport::State;

LinkSettings on_loopback() { return {.listen = "127.0.0.1:0"}; }

LinkSettings secured(const SelfSigned& files) {
    return {.listen = "127.0.0.1:0",
            .certificate = files.certificate,
            .key = files.key,
            .authorities = files.certificate};
}

constexpr Millis asked_again_after = 5;

/// A node's link that says what it is told to say.
struct Node {
    explicit Node(std::string name, LinkSettings settings = on_loopback())
        : incarnation(std::move(name)), link(settings, asked_again_after, [this] {
              return LinkHello{incarnation, "birth", has_redis};
          }) {}

    const std::string incarnation;
    std::atomic<bool> has_redis{true};
    NodeLink link;
};

/// The first answer to a question that is newer than this call.
LinkHello await_answer(const NodeLink& link, const std::string& address) {
    const Millis begin = boot_now();
    LinkHello hello;
    REQUIRE(comes_true([&] {
        if (boot_now() <= begin) return false;
        const auto report = link.report(address, boot_now() - begin - 1);
        if (!report || report->state != State::answered) return false;
        hello = report->hello;
        return true;
    }));
    return hello;
}

/// Waits for the socket, which does not block.
void await(int socket, short event) {
    pollfd waiting{.fd = socket, .events = event, .revents = 0};
    REQUIRE(::poll(&waiting, 1, test_patience_ms) == 1);
}

void write_all(int socket, std::string_view bytes) {
    while (!bytes.empty()) {
        await(socket, POLLOUT);
        const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        REQUIRE(sent > 0);
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
}

/// So many bytes, or fewer if the connection ends.
std::string read_bytes(int socket, std::size_t count) {
    std::string bytes;
    while (bytes.size() < count) {
        await(socket, POLLIN);
        char part[4096];
        const ssize_t got = ::recv(socket, part, std::min(sizeof part, count - bytes.size()), 0);
        if (got <= 0) break;
        bytes.append(part, static_cast<std::size_t>(got));
    }
    return bytes;
}

}  // namespace

TEST_CASE("a node tells its name and whether it has Redis") {
    Node west("west#1"), east("east#1");
    const LinkReport report = west.link.ask(east.link.address());
    CHECK(report.state == State::answered);
    CHECK(report.hello == LinkHello{"east#1", "birth", true});
    CHECK_FALSE(report.is_gone("east#1"));
    CHECK(report.is_gone("east#0"));  // an earlier process
    east.has_redis = false;
    CHECK(west.link.ask(east.link.address()).hello == LinkHello{"east#1", "birth", false});
}

TEST_CASE("a port that refuses connections is told from a node that says nothing") {
    Node west("west#1");
    std::optional<Node> east(std::in_place, "east#1");
    const std::string address = east->link.address();
    east.reset();
    CHECK(west.link.ask(address).state == State::refused);
    CHECK(west.link.ask("").state == State::unreachable);
    CHECK(west.link.ask("nowhere.invalid:1").state == State::unreachable);

    boost::asio::io_context io;  // which accepts nobody, like a process that was stopped
    boost::asio::ip::tcp::acceptor silent(io, {boost::asio::ip::address_v4::loopback(), 0});
    CHECK(west.link.ask("127.0.0.1:" + std::to_string(silent.local_endpoint().port())).state ==
          State::unreachable);
}

TEST_CASE("nodes that are watched are asked over and over") {
    Node west("west#1"), east("east#1");
    const std::string address = east.link.address();
    CHECK_FALSE(west.link.report(address, 10'000));
    west.link.watch({address});
    CHECK(await_answer(west.link, address).has_redis);
    east.has_redis = false;
    CHECK_FALSE(await_answer(west.link, address).has_redis);
    west.link.watch({});
    CHECK_FALSE(west.link.report(address, 10'000));
}

TEST_CASE("with certificates both ends of a link must be signed by the authority") {
    const SelfSigned files, others;
    Node west("west#1", secured(files)), east("east#1", secured(files));
    Node stranger("stranger#1", secured(others)), plain("plain#1");
    CHECK(west.link.ask(east.link.address()).hello.incarnation == "east#1");
    CHECK(west.link.ask(stranger.link.address()).state == State::unreachable);
    CHECK(stranger.link.ask(west.link.address()).state == State::unreachable);
    CHECK(plain.link.ask(west.link.address()).state == State::unreachable);
    CHECK(west.link.ask(plain.link.address()).state == State::unreachable);
}

TEST_CASE("a link that cannot be is refused with the remedy") {
    const auto why = [](const LinkSettings& settings) {
        return complaint(
            [&] { const NodeLink link(settings, asked_again_after, [] { return LinkHello(); }); });
    };
    CHECK(why({.listen = "0.0.0.0:0"}) ==
          "link-listen: other machines can reach 0.0.0.0:0, so the link needs certificates; set "
          "link-cert, link-key and link-ca");
    CHECK(why({.listen = "here"}) ==
          "link-listen: here is not an address; write it as 127.0.0.1:7883");
    CHECK(why({.listen = "127.0.0.1:0", .certificate = "a.pem"}) ==
          "link-cert, link-key and link-ca belong together; set all three");
    CHECK(why({.listen = "127.0.0.1:0", .certificate = "a", .key = "b", .authorities = "c"})
              .starts_with("link-cert: a: "));
    CHECK(why({.listen = "127.0.0.1:0", .address = "west"}) ==
          "link-address: west is not an address; write it as west.example:7883");
    const Node node("west#1");
    CHECK(why({.listen = node.link.address()})
              .ends_with("another node runs there, or choose another port"));
}

TEST_CASE("the line of a hello") {
    const LinkHello hello{"west#1", "b1", true, 8, {1, 1}};
    CHECK(to_line(hello) == "pulsegate-link 1 west#1 b1 redis 8\n");
    CHECK(parse_link_hello("pulsegate-link 1 west#1 b1 redis 8") == hello);
    CHECK(parse_link_hello("pulsegate-link 1 west#1 b1 redis 8 and more") == hello);
    LinkHello later = hello;
    later.versions = {2, 13};
    CHECK(to_line(later) == "pulsegate-link 2-13 west#1 b1 redis 8\n");
    CHECK(parse_link_hello("pulsegate-link 2-13 west#1 b1 redis 8") == later);
    later.versions = {2, 2};
    CHECK(parse_link_hello("pulsegate-link 2 west#1 b1 redis 8") == later);
    for (const char* unknown : {"0", "x", "3-2", "0-1", "1-", "-1", "1-2-3", "1-4294967296"}) {
        const auto hello_of_unknown =
            parse_link_hello(std::string("pulsegate-link ") + unknown + " west#1 b1 redis 8");
        REQUIRE(hello_of_unknown);
        CHECK_FALSE(common_version(hello_of_unknown->versions, {1, 4'294'967'295}));
    }
    const LinkHello older{"west#1", "b1", true, 0, {1, 1}};
    CHECK(parse_link_hello("pulsegate-link 1 west#1 b1 redis") == older);
    CHECK(parse_link_hello("pulsegate-link 1 west#1 b1 redis 8x") == older);
    for (const char* line : {"", "pulsegate-link", "pulsegate-link 1", "pulsegate-link 1 a b",
                             "pulsegate-link 1 a b yes", "HTTP/1.1 400 a b redis"})
        CHECK_FALSE(parse_link_hello(line));
}

TEST_CASE("the line of an edge") {
    EdgeRequest request{.edge = {"east#1", "b1", false, 4, {1, 1}}, .link = 18446744073709551615u};
    CHECK(to_edge_line(request) == "pulsegate-edge 1 east#1 b1 4 18446744073709551615 new\n");
    CHECK(parse_edge_line("pulsegate-edge 1 east#1 b1 4 18446744073709551615 new") == request);
    CHECK(parse_edge_line("pulsegate-edge 1 east#1 b1 4 18446744073709551615 new more") == request);
    request.received = 0;
    CHECK(to_edge_line(request) == "pulsegate-edge 1 east#1 b1 4 18446744073709551615 0\n");
    CHECK(parse_edge_line("pulsegate-edge 1 east#1 b1 4 18446744073709551615 0") == request);
    request.edge.versions = {2, 2};
    CHECK(to_edge_line(request) == "pulsegate-edge 2 east#1 b1 4 18446744073709551615 0\n");
    CHECK(parse_edge_line("pulsegate-edge 2 east#1 b1 4 18446744073709551615 0") == request);
    for (const char* line :
         {"", "pulsegate-edge 1 east#1 b1", "pulsegate-edge 1 east#1 b1 4",
          "pulsegate-edge 1 east#1 b1 4 7", "pulsegate-edge 1 east#1 b1 0 7 new",
          "pulsegate-edge 1 east#1 b1 -4 7 new", "pulsegate-edge x east#1 b1 4 7 new",
          "pulsegate-edge 1  b1 4 7 new", "pulsegate-link 1 east#1 b1 4 7 new",
          "pulsegate-edge 1 east#1 b1 4 18446744073709551616 new",
          "pulsegate-edge 1 east#1 b1 4 7 old", "pulsegate-edge 1 east#1 b1 4 7 -1"})
        CHECK_FALSE(parse_edge_line(line));
}

TEST_CASE("the line of a request of another node's client") {
    CarriedRequest request{.node = {"east#1", "b1"}, .address = "2001:db8::/64", .token = "-"};
    const std::string line = "pulsegate-http 1 east#1 b1 2001%3Adb8%3A%3A%2F64 %2D";
    CHECK(to_request_line(request) == line + "\n");
    CHECK(parse_request_line(line) == request);
    CHECK(parse_request_line(line + " more") == request);
    request.address = request.token = "";
    CHECK(to_request_line(request) == "pulsegate-http 1 east#1 b1 - -\n");
    CHECK(parse_request_line("pulsegate-http 1 east#1 b1 - -") == request);
    for (const char* bad : {"", "pulsegate-http 2 east#1 b1 - -", "pulsegate-http 1  b1 - -",
                            "pulsegate-edge 1 east#1 b1 - -", "pulsegate-http 1 east#1 b1 %z -",
                            "pulsegate-http 1 east#1 b1 - %ff"})
        CHECK_FALSE(parse_request_line(bad));
}

TEST_CASE("a request travels to the home and its reply back, with TLS and without") {
    const SelfSigned files;
    for (const LinkSettings& settings : {on_loopback(), secured(files)}) {
        Node home("home#1", settings), edge("edge#1", settings);
        std::promise<std::pair<UniqueFd, CarriedRequest>> arrived;
        home.link.accept_edges(1, nullptr, [&](UniqueFd socket, CarriedRequest request) {
            arrived.set_value({std::move(socket), std::move(request)});
        });
        auto [ours, theirs] = socket_pair();
        CarriedRequest sent{.address = "10.0.0.7", .token = "shop"};
        edge.link.carry({home.link.address(), "home#1"}, sent, std::move(theirs));
        auto [far, request] = arrived.get_future().get();
        sent.node = {"edge#1", "birth", true};
        request.node.has_redis = true;
        sent.is_of_node = !settings.certificate.empty();
        CHECK(request == sent);
        const std::string question(100'000, 'q'), answer(200'000, 'a');
        write_all(ours.get(), question);
        CHECK(read_bytes(far.get(), question.size()) == question);
        std::thread answering([&far = far, &answer] {
            write_all(far.get(), answer);
            far = {};
        });
        CHECK(read_bytes(ours.get(), answer.size() + 1) == answer);  // then it ends
        answering.join();
    }
}

TEST_CASE("a request that the home does not take ends") {
    Node home("home#1"), edge("edge#1");
    const auto ends = [&](const HomeNode& place) {
        auto [ours, theirs] = socket_pair();
        edge.link.carry(place, {}, std::move(theirs));
        return read_bytes(ours.get(), 1).empty();
    };
    CHECK(ends({home.link.address(), "home#1"}));  // it does not own the data
    home.link.accept_edges(1, nullptr,
                           [](UniqueFd, CarriedRequest) { FAIL("it is another node"); });
    CHECK(ends({home.link.address(), "home#2"}));
    CHECK(ends({"127.0.0.1:1", "home#1"}));
}

TEST_CASE("after its lease an owner serves on only if Redis is away for all") {
    Node self("self#1"), other("other#1");
    const Pace pace{.lease = 200'000, .beat = 50'000};
    ServingLease lease(self.link, pace);
    CHECK_FALSE(lease.holds());
    const std::string address = other.link.address();
    // Redis is away before the lease ends, or is found so when it has ended.
    const auto expire_while_away = [&](const std::string& incarnation, const std::string& where) {
        bool is_noted_in_time = false;  // a busy machine may need several attempts
        for (Millis left = 20; !is_noted_in_time; left *= 2) {
            const Millis end = boot_now() + left;
            lease.renew(end - pace.lease, {{incarnation, where}});
            lease.note_away();
            is_noted_in_time = boot_now() < end;
            while (boot_now() < end) std::this_thread::yield();
        }
    };
    lease.renew(boot_now(), {{"other#1", address}});
    CHECK(lease.holds());

    self.link.watch({address});
    other.has_redis = false;
    REQUIRE_FALSE(await_answer(self.link, address).has_redis);
    lease.renew(boot_now() - pace.lease, {{"other#1", address}});
    CHECK_FALSE(lease.holds());
    lease.note_away();  // perhaps it was this process that stood still
    CHECK_FALSE(lease.holds());
    lease.renew(boot_now() - pace.lease, {});  // a node that it does not know may have claimed
    lease.note_away();
    CHECK_FALSE(lease.holds());
    expire_while_away("other#1", address);
    CHECK(lease.holds());

    other.has_redis = true;
    REQUIRE(await_answer(self.link, address).has_redis);
    expire_while_away("other#1", address);
    CHECK_FALSE(lease.holds());
    expire_while_away("other#0", address);  // it was restarted, and may claim
    CHECK_FALSE(lease.holds());
    other.has_redis = false;
    REQUIRE_FALSE(await_answer(self.link, address).has_redis);
    expire_while_away("other#0", address);
    CHECK(lease.holds());
    expire_while_away("third#1", "127.0.0.1:1");  // nobody has asked it
    CHECK_FALSE(lease.holds());
    lease.end();
    lease.renew(boot_now(), {});
    CHECK_FALSE(lease.holds());
}

TEST_CASE("an owner without Redis hears of a new node with Redis when that one asks it") {
    Node owner("owner#1"), newcomer("newcomer#1");
    const std::string address = owner.link.address();
    newcomer.has_redis = false;
    CHECK(newcomer.link.ask(address).state == State::answered);
    const auto stranger = std::make_unique<NodeLink>(on_loopback(), asked_again_after, [] {
        return LinkHello{"stranger#1", "other", true};
    });
    CHECK(stranger->ask(address).state == State::answered);

    const Pace pace{.lease = 200'000, .beat = 50'000};
    ServingLease lease(owner.link, pace);
    const auto expire_while_away = [&] {
        bool is_noted_in_time = false;  // as above
        for (Millis left = 20; !is_noted_in_time; left *= 2) {
            const Millis end = boot_now() + left;
            lease.renew(end - pace.lease, {});
            lease.note_away();
            is_noted_in_time = boot_now() < end;
            while (boot_now() < end) std::this_thread::yield();
        }
    };
    expire_while_away();
    CHECK(lease.holds());
    newcomer.has_redis = true;
    newcomer.link.watch({address});
    REQUIRE(comes_true([&] { return owner.link.was_asked_with_redis(pace.lease); }));
    expire_while_away();
    CHECK_FALSE(lease.holds());
    newcomer.has_redis = false;  // Redis is away for all
    REQUIRE(comes_true([&] { return !owner.link.was_asked_with_redis(pace.lease); }));
    expire_while_away();
    CHECK(lease.holds());
}
