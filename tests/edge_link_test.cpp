#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "server/cluster/link/node_link.h"
#include "tests/support/link_ends.h"
#include "tests/support/patience.h"
#include "tests/support/self_signed.h"

using namespace pulsegate;
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr Millis seldom = 60'000;

LinkSettings edge_settings(const SelfSigned* files) {
    if (!files) return {.listen = "127.0.0.1:0"};
    return {.listen = "127.0.0.1:0",
            .certificate = files->certificate,
            .key = files->key,
            .authorities = files->certificate};
}

/// A node that may be a home, an edge, or both.
struct Peer {
    explicit Peer(std::string name, const SelfSigned* files = nullptr,
                  LinkVersions spoken = our_link_versions)
        : incarnation(std::move(name)),
          versions(spoken),
          link(edge_settings(files), seldom, [this] {
              return LinkHello{incarnation, birth, true, 0, versions};
          }) {}

    /// Dials, and waits until it is clear what has come of it. Without a connection it returns why.
    std::string dial(const HomeNode& home, FrameStream::Handlers handlers = {}) {
        std::promise<std::string> outcome;
        link.dial(home, 3, [&](DialedHome dialed) {
            CHECK((dialed.stream == nullptr) == !dialed.why.empty());
            CHECK(dialed.accepts_no_edges ==
                  (dialed.why.find("accepts no edges") != std::string::npos));
            if (dialed.stream) {
                CHECK(dialed.stream->peer().incarnation == home.incarnation);
                CHECK(dialed.stream->peer().shards == 8);
                if (!handlers.ended) handlers.ended = [](const std::string&) {};
                dialed.stream->begin(std::move(handlers));
                dialed.stream->send(std::string("\2\0\0\0hi", 6));
            }
            outcome.set_value(dialed.why);
        });
        return outcome.get_future().get();
    }

    HomeNode as_home() const { return {link.address(), incarnation}; }

    /// Sends back what edges send.
    void echo() {
        link.accept_edges(
            8,
            [](std::shared_ptr<FrameStream> edge) {
                CHECK(edge->peer().incarnation == "east#1");
                CHECK(edge->peer().shards == 3);
                edge->begin({.received = [edge](std::string_view frames) { edge->send(frames); },
                             .ended = [](const std::string&) {}});
            },
            nullptr);
    }

    const std::string incarnation;
    const std::string birth = "birth";
    const LinkVersions versions;
    NodeLink link;
};

/// The version of the link between two nodes that speak these versions, or why there is no link.
std::string version_of_link(LinkVersions of_edge, LinkVersions of_home) {
    Peer home("west#1", nullptr, of_home), edge("east#1", nullptr, of_edge);
    std::promise<LinkVersions> of_stream;
    home.link.accept_edges(
        8,
        [&](std::shared_ptr<FrameStream> stream) {
            of_stream.set_value(stream->peer().versions);
            stream->begin({.received = [](std::string_view) {}, .ended = [](const auto&) {}});
        },
        nullptr);
    std::promise<std::string> outcome;
    edge.link.dial(home.as_home(), 3, [&](DialedHome dialed) {
        outcome.set_value(dialed.stream ? dialed.stream->peer().versions.text() : dialed.why);
    });
    std::string said = outcome.get_future().get();
    if (said.starts_with("version")) CHECK(of_stream.get_future().get().text() == said);
    return said;
}

std::string link_to(const HomeNode& home, const std::string& what) {
    return "link to " + home.address + ": " + what;
}

/// What a node that is not of this program says to one that dials it.
std::string dial_to_stranger(const std::string& hello, bool reads_answer) {
    asio::io_context io;
    tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    Peer edge("east#1");
    std::thread stranger([&] {
        tcp::socket socket = acceptor.accept();
        asio::write(socket, asio::buffer(hello));
        std::string answer;
        boost::system::error_code error;
        if (reads_answer) asio::read_until(socket, asio::dynamic_buffer(answer), '\n', error);
        if (reads_answer) CHECK(answer.starts_with("pulsegate-edge 1 east#1 birth 3 "));
    });
    const HomeNode home{"127.0.0.1:" + std::to_string(acceptor.local_endpoint().port()), "west#1"};
    const std::string why = edge.dial(home);
    stranger.join();
    const std::string begin = link_to(home, "");
    CHECK(why.starts_with(begin));
    return why.substr(begin.size());
}

/// A connection to a node's link, without TLS, which has read the hello.
tcp::socket guest_of(const Peer& node, asio::io_context& io) {
    tcp::socket socket(io);
    const auto [host, port] = split_link_address(node.link.address());
    socket.connect({asio::ip::make_address(host), static_cast<std::uint16_t>(std::stoi(port))});
    std::string line;
    asio::read_until(socket, asio::dynamic_buffer(line), '\n');
    CHECK(line.starts_with("pulsegate-link "));
    CHECK(line.find(' ' + node.incarnation + ' ') != std::string::npos);
    return socket;
}

/// What the link answers to a line; "" if it closes the connection.
std::string answer_to(const Peer& node, const std::string& line) {
    asio::io_context io;
    tcp::socket socket = guest_of(node, io);
    boost::system::error_code error;
    asio::write(socket, asio::buffer(line), error);
    char room[16];
    const std::size_t got = socket.read_some(asio::buffer(room), error);
    return {room, got};
}

}  // namespace

TEST_CASE("an edge and its home send each other frames") {
    std::optional<SelfSigned> files;
    SUBCASE("plain") {}
    SUBCASE("TLS") { files.emplace(); }
    Peer home("west#1", files ? &*files : nullptr), edge("east#1", files ? &*files : nullptr);
    home.echo();
    std::promise<std::string> echoed;
    CHECK(edge.dial(home.as_home(), {.received = [&](std::string_view frames) {
                        echoed.set_value(std::string(frames));
                    }}) == "");
    CHECK(echoed.get_future().get() == std::string("\2\0\0\0hi", 6));
    CHECK(edge.link.ask(home.link.address()).hello.shards == 8);
    CHECK(home.link.ask(edge.link.address()).hello.shards == 0);
}

TEST_CASE("an edge and its home use the highest version of the link that both speak") {
    constexpr LinkVersions old{1, 1}, both{1, 2}, later{2, 3};
    CHECK(version_of_link(old, old) == "version 1");
    CHECK(version_of_link(old, both) == "version 1");
    CHECK(version_of_link(both, old) == "version 1");
    CHECK(version_of_link(both, both) == "version 2");
    CHECK(version_of_link(both, later) == "version 2");
    CHECK(version_of_link(later, both) == "version 2");
    CHECK(version_of_link(later, later) == "version 3");
}

TEST_CASE("nodes without a common version of the link refuse each other, and say why") {
    constexpr LinkVersions old{1, 1}, later{2, 3};
    CHECK(
        version_of_link(old, later)
            .ends_with(": west#1 speaks versions 2 to 3 of the link, and this node version 1: run "
                       "the same version of Pulsegate on both"));
    CHECK(
        version_of_link(later, old)
            .ends_with(": west#1 speaks version 1 of the link, and this node versions 2 to 3: run "
                       "the same version of Pulsegate on both"));
    // A node of a release without ranges sends its only version whatever the hello says.
    Peer home("west#1", nullptr, later);
    home.echo();
    CHECK(answer_to(home, "pulsegate-edge 1 east#1 birth 3 7 new\n") == "refused\n");
    CHECK(answer_to(home, "pulsegate-edge 4 east#1 birth 3 7 new\n") == "refused\n");
    CHECK(dial_to_stranger("pulsegate-link 8-9 west#1 birth redis 8\n", false)
              .starts_with("west#1 speaks versions 8 to 9 of the link, and this node "));
}

TEST_CASE("the end of a node ends its streams at the other end") {
    auto home = std::make_unique<Peer>("west#1");
    Peer edge("east#1");
    home->echo();
    std::promise<void> echoed;
    std::promise<std::string> ended;
    CHECK(edge.dial(home->as_home(),
                    {.received = [&](std::string_view) { echoed.set_value(); },
                     .ended = [&](const std::string& why) { ended.set_value(why); }}) == "");
    echoed.get_future().get();
    home.reset();
    CHECK(ended.get_future().get() ==
          "its connection is lost, and there is no other: Connection refused");
}

TEST_CASE("an edge says why it has no connection to its home") {
    Peer home("west#1"), edge("east#1");
    CHECK(edge.dial(home.as_home()) ==
          link_to(home.as_home(),
                  "west#1 accepts no edges: it does not own the data, or its version is older"));
    home.echo();
    const HomeNode earlier{home.link.address(), "west#0"};
    CHECK(edge.dial(earlier) == link_to(earlier, "west#1 is there, not west#0"));
    CHECK(edge.dial({"127.0.0.1:1", "west#1"}) == "link to 127.0.0.1:1: Connection refused");
    CHECK(edge.dial({"", "west#1"}).starts_with("link to : "));

    CHECK(dial_to_stranger("pulsegate-link 1 west#1 birth redis\n", false) ==
          "west#1 accepts no edges: it does not own the data, or its version is older");
    CHECK(dial_to_stranger("pulsegate-link 1 west#1 other redis 8\n", false) ==
          "west#1 has another data set");
    CHECK(dial_to_stranger("pulsegate-link 1 west#1 birth redis 8\n", true) ==
          "west#1 has refused this node as its edge");
    CHECK(dial_to_stranger("220 mail.example ESMTP\r\n", false) == "no hello of a node has come");
    CHECK(dial_to_stranger(std::string(10'000, 'x'), false) == "no hello of a node has come");
}

TEST_CASE("a home closes the connections of all that are not its edges") {
    Peer home("west#1");
    CHECK(answer_to(home, "pulsegate-edge 1 east#1 birth 3 7 new\n") ==
          "refused\n");  // it is no home yet
    home.echo();
    CHECK(answer_to(home, "pulsegate-edge 1 east#1 birth 3 7 new\n") == link_position(0));
    CHECK(answer_to(home, "pulsegate-edge x east#1 birth 3 7 new\n") == "");
    CHECK(answer_to(home, "pulsegate-edge 1 east#1 other 3 7 new\n") == "");
    CHECK(answer_to(home, "pulsegate-edge 1 east#1 birth 3 8 0\n") == "refused\n");
    CHECK(answer_to(home, "GET / HTTP/1.1\r\n\r\n") == "");
    CHECK(answer_to(home, std::string(10'000, 'x')) == "");
    home.link.refuse_edges();
    CHECK(answer_to(home, "pulsegate-edge 1 east#1 birth 3 7 new\n") == "refused\n");
}

TEST_CASE("a node is served although very many connect to the link after it") {
    Peer home("west#1");
    home.echo();
    asio::io_context io;
    tcp::socket edge = guest_of(home, io);
    std::vector<tcp::socket> others;
    for (int i = 0; i < 256; ++i) others.push_back(guest_of(home, io));
    asio::write(edge, asio::buffer("pulsegate-edge 1 east#1 birth 3 7 new\n"));
    std::string answer(link_position(0).size(), ' ');
    asio::read(edge, asio::buffer(answer));
    CHECK(answer == link_position(0));
}

TEST_CASE("a home gets frames that an edge sends together with its line") {
    Peer home("west#1");
    home.echo();
    asio::io_context io;
    tcp::socket edge = guest_of(home, io);
    const std::string frames("\2\0\0\0hi\1\0\0\0!", 11);
    const std::string line = "pulsegate-edge 1 east#1 birth 3 7 new\n" + frames;
    asio::write(edge, asio::buffer(line));
    std::string answer(24 + frames.size(), ' ');
    asio::read(edge, asio::buffer(answer));
    CHECK(answer == link_position(0) + link_position(frames.size()) + frames);
}

TEST_CASE("an edge goes on with its link on another connection") {
    Peer home("west#1");
    home.echo();
    asio::io_context io;
    const std::string frames("\2\0\0\0hi\1\0\0\0!", 11);
    {
        tcp::socket edge = guest_of(home, io);
        asio::write(edge, asio::buffer("pulsegate-edge 1 east#1 birth 3 7 new\n" + frames));
        std::string answer(24 + frames.size(), ' ');
        asio::read(edge, asio::buffer(answer));
    }
    for (const std::size_t received : {0, 6, 11}) {
        tcp::socket edge = guest_of(home, io);
        asio::write(edge,
                    asio::buffer(fmt::format("pulsegate-edge 1 east#1 birth 3 7 {}\n", received)));
        const std::string expected = link_position(frames.size()) + frames.substr(received);
        std::string answer(expected.size(), ' ');
        asio::read(edge, asio::buffer(answer));
        CHECK(answer == expected);
    }
    // It claims more than it was sent: the link ends.
    CHECK(answer_to(home, "pulsegate-edge 1 east#1 birth 3 7 12\n") == "refused\n");
    CHECK(answer_to(home, "pulsegate-edge 1 east#1 birth 3 7 11\n") == "refused\n");
}

TEST_CASE("a connection that the edge has given up comes too late to end the link") {
    Peer home("west#1");
    home.echo();
    asio::io_context io;
    const std::string frame("\2\0\0\0hi", 6);
    {
        tcp::socket first = guest_of(home, io);
        asio::write(first, asio::buffer("pulsegate-edge 1 east#1 birth 3 7 new\n" + frame));
        std::string answer(24 + frame.size(), ' ');
        asio::read(first, asio::buffer(answer));
    }
    tcp::socket second = guest_of(home, io);
    asio::write(second, asio::buffer(std::string("pulsegate-edge 1 east#1 birth 3 7 6\n")));
    std::string answer(12, ' ');
    asio::read(second, asio::buffer(answer));
    CHECK(answer == link_position(6));
    CHECK(answer_to(home, "pulsegate-edge 1 east#1 birth 3 7 0\n") == "refused\n");
    asio::write(second, asio::buffer(frame));
    answer.clear();
    asio::read_until(second, asio::dynamic_buffer(answer), "hi");
    CHECK(answer.ends_with(link_position(12) + frame));
}

TEST_CASE("no edge is handed over after the home has refused edges") {
    Peer home("west#1"), edge("east#1");
    std::atomic<bool> may_come{false};
    std::atomic<int> came{0}, refused{0};
    const std::jthread dialer([&](const std::stop_token& is_over) {
        while (!is_over.stop_requested())
            if (!edge.dial(home.as_home()).empty()) ++refused;
    });
    for (int i = 0; i < 10; ++i) {
        const int before = came;
        may_come = true;
        home.link.accept_edges(
            8,
            [&](std::shared_ptr<FrameStream> stream) {
                CHECK(may_come);
                stream->begin(
                    {.received = [](std::string_view) {}, .ended = [](const std::string&) {}});
                ++came;
            },
            nullptr);
        REQUIRE(comes_true([&] { return came != before; }));
        home.link.refuse_edges();
        may_come = false;
        const int refused_before = refused;
        REQUIRE(comes_true([&] { return refused != refused_before; }));
    }
    CHECK(came >= 10);
}
