// What a trace tells, and what it must never tell.
#include "server/session/trace/trace.h"

#include <doctest/doctest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <string>
#include <vector>

#include "protocol/encode.h"
#include "server/session/trace/packet_summary.h"
#include "server/session/trace/tracer.h"
#include "tests/support/broker_cluster.h"

using namespace pulsegate;

namespace {

std::shared_ptr<Trace> trace_of_user(const std::string& user) {
    return std::make_shared<Trace>(TraceTarget{.kind = TraceTarget::Kind::user, .name = user},
                                   [] {});
}

boost::json::object an_event() { return {{"event", "test"}}; }

boost::json::object summary_of(const Packet& packet, Sender sender) {
    Buffer bytes;
    std::visit([&](const auto& each) { encode(each, Version::v5_0, bytes); }, packet);
    return packet_summary(as_bytes(bytes), Version::v5_0, sender);
}

}  // namespace

TEST_CASE("a summary has the topic and the size of a message, but not its payload") {
    const auto told = summary_of(Publish{.qos = QoS::at_least_once,
                                         .topic = "room/x",
                                         .packet_id = 7,
                                         .payload = "secret words"},
                                 Sender::client);
    CHECK(told.at("event") == "packet_in");
    CHECK(told.at("packet") == "PUBLISH");
    CHECK(told.at("topic") == "room/x");
    CHECK(told.at("qos") == 1);
    CHECK(told.at("id") == 7);
    CHECK(told.at("bytes").to_number<int>() > 20);
    CHECK(boost::json::serialize(told).find("secret") == std::string::npos);
}

TEST_CASE("a summary says that there is a password, but not which") {
    Connect connect{.version = Version::v5_0, .keepalive = 60, .client_id = "phone"};
    connect.username = "ann";
    connect.password = "secret";
    const auto told = summary_of(connect, Sender::client);
    CHECK(told.at("client") == "phone");
    CHECK(told.at("username") == "ann");
    CHECK(told.at("has_password") == true);
    CHECK(told.at("keepalive") == 60);
    CHECK(boost::json::serialize(told).find("secret") == std::string::npos);
}

TEST_CASE("a summary of a malformed packet says what is wrong with it") {
    const auto told =
        packet_summary(as_bytes(std::string_view("\x10\x00", 2)), Version::v5_0, Sender::client);
    CHECK(told.at("packet") == "CONNECT");
    CHECK(told.contains("why"));
}

TEST_CASE("a trace follows its target, and costs nothing when it has ended") {
    Tracer tracer;
    CHECK_FALSE(tracer.is_on());
    const auto trace = trace_of_user("ann");
    tracer.begin(trace);
    CHECK(tracer.is_on());
    tracer.tell({.user = "bob", .client = "phone"}, an_event);
    CHECK(trace->take().events.empty());
    tracer.tell({.user = "ann", .client = "phone"}, an_event);
    const auto taken = trace->take();
    REQUIRE(taken.events.size() == 1);
    const auto told = boost::json::parse(taken.events[0]).as_object();
    CHECK(told.at("user") == "ann");
    CHECK(told.at("client") == "phone");
    CHECK(told.contains("time"));
    trace->end();
    tracer.tell({.user = "ann"}, an_event);
    CHECK(trace->take().events.empty());
    CHECK_FALSE(tracer.is_on());
}

TEST_CASE("a connection without a session is followed by the name that it claims") {
    Tracer tracer;
    const KeptLink link(0);
    const auto trace = trace_of_user("ann");
    tracer.begin(trace);
    tracer.tell({.link = &link}, an_event);
    tracer.claim(link, "bob", "phone");
    tracer.tell({.link = &link}, an_event);
    CHECK(trace->take().events.empty());
    tracer.claim(link, "ann", "phone");
    tracer.tell({.link = &link}, an_event);
    CHECK(trace->take().events.size() == 1);
    tracer.forget(link);
    tracer.tell({.link = &link}, an_event);
    CHECK(trace->take().events.empty());
}

TEST_CASE(
    "packets that a client sends before its user is known are traced once the user is known") {
    Tracer tracer;
    const KeptLink link(0);
    const KeptLink other(0);
    const auto ann = trace_of_user("ann");
    const auto bob = trace_of_user("bob");
    tracer.begin(ann);
    tracer.begin(bob);
    const TraceSubject sends{.link = &link, .may_be_claimed = true};
    tracer.claim(link, "bob", "phone");  // as the CONNECT says
    tracer.tell(sends, an_event);
    CHECK(bob->take().events.size() == 1);
    CHECK(ann->take().events.empty());
    tracer.claim(link, "ann", "phone");  // as the token says
    const auto taken = ann->take();
    REQUIRE(taken.events.size() == 1);
    const auto told = boost::json::parse(taken.events[0]).as_object();
    CHECK(told.at("user") == "ann");
    CHECK(told.contains("time"));
    CHECK(bob->take().events.empty());

    tracer.claim(link, "ann", "phone");
    CHECK(ann->take().events.empty());  // once
    tracer.tell({.link = &other, .may_be_claimed = true}, an_event);
    tracer.forget(other);
    tracer.claim(other, "ann", "phone");
    CHECK(ann->take().events.empty());
}

TEST_CASE("so many connections are kept in mind until their users are known") {
    Tracer tracer;
    const auto trace = trace_of_user("ann");
    tracer.begin(trace);
    std::vector<std::unique_ptr<KeptLink>> links;
    for (int i = 0; i < 1'100; ++i) {
        links.push_back(std::make_unique<KeptLink>(0));
        tracer.tell({.link = links.back().get(), .may_be_claimed = true}, an_event);
    }
    for (int i = 0; i < 100; ++i) tracer.claim(*links[1'000 + i], "ann", "phone");
    CHECK(trace->take().events.empty());
    for (int i = 0; i < 100; ++i) tracer.claim(*links[i], "ann", "phone");
    CHECK(trace->take().events.size() == 100);
    tracer.tell({.link = links[1'050].get(), .may_be_claimed = true}, an_event);
    tracer.claim(*links[1'050], "ann", "phone");  // there is room again
    CHECK(trace->take().events.size() == 1);
}

TEST_CASE("events without room in a trace are counted, and the count stands at the gap") {
    const auto trace = trace_of_user("ann");
    for (std::size_t i = 0; i < Trace::most_events + 5; ++i) trace->put("x");
    auto taken = trace->take();
    CHECK(taken.events.size() == Trace::most_events);
    CHECK(taken.lost == 5);
    trace->put(std::string(Trace::most_bytes, 'x'));
    trace->put("y");
    trace->put("");
    taken = trace->take();
    CHECK(taken.events.size() == 1);
    CHECK(taken.lost == 2);
    trace->put("z");
    CHECK(trace->take().events.size() == 1);
}
