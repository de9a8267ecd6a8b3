#include <doctest/doctest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/gateway.h"
#include "tests/support/text.h"
#include "tests/support/wire.h"

using namespace pulsegate;

namespace json = boost::json;

namespace {

struct Answer {
    int status;
    std::string head;
    std::string body;

    json::object object() const { return json::parse(body).as_object(); }
};

/// Sends raw bytes to the HTTP API and reads to the end.
Answer ask(const Gateway& gateway, const std::string& request) {
    Conversation c(gateway.http_port());
    c.send_bytes(request);
    const std::string all = c.rest();
    const auto end = all.find("\r\n\r\n");
    REQUIRE_MESSAGE((all.starts_with("HTTP/1.") && end != std::string::npos), all);
    return {std::stoi(all.substr(9)), all.substr(0, end + 2), all.substr(end + 4)};
}

Answer get(const Gateway& gateway, const std::string& target, const std::string& verb = "GET") {
    return ask(gateway,
               verb + " " + target + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
}

/// The header without its date, which must be there.
std::string without_date(std::string head) {
    const auto begin = head.find("\r\nDate: ");
    REQUIRE(begin != std::string::npos);
    const auto end = head.find("\r\n", begin + 2);
    CHECK(head.substr(begin, end - begin).ends_with(" GMT"));
    return head.erase(begin, end - begin);
}

/// The sum of one metric over all shards, or of those lines that have `label` too.
double sum(const std::string& metrics, const std::string& name, const std::string& label = {}) {
    double total = 0;
    bool found = false;
    for (std::size_t at = 0; at < metrics.size();) {
        const auto line = metrics.substr(at, metrics.find('\n', at) - at);
        at += line.size() + 1;
        if (!line.starts_with(name + "{") && !line.starts_with(name + " ")) continue;
        if (!has(line, label)) continue;
        total += std::stod(line.substr(line.rfind(' ')));
        found = true;
    }
    CHECK_MESSAGE(found, "no metric ", name, " ", label);
    return total;
}

}  // namespace

TEST_CASE("/healthz says that all shards answer") {
    const Gateway gateway;
    const auto answer = get(gateway, "/healthz");
    CHECK(answer.status == 200);
    CHECK(has(answer.head, "Content-Type: application/json"));
    CHECK(answer.object().at("status").as_string() == "ok");
    CHECK(answer.object().at("shards").to_number<int>() == 2);
    CHECK(answer.object().at("stalled").as_array().empty());
}

TEST_CASE("/metrics counts what happened") {
    Gateway gateway([](Config& config) { config.max_loop_lag = 60'000; });  // that no limit is hit
    Conversation alice(gateway);
    Conversation bob(gateway);
    alice.login(at_home(0, "alice")).send("82 r k1 s'x' 01").expect("90 03 k1 01");
    bob.login(at_home(1, "bob")).send("32 r s'x' k1 'hi' | 30 r s'presence/x' 'no'");
    bob.expect("40 02 k1").send("c0 00").expect("d0 00");
    alice.expect("32 r s'x' k1 'hi'").send("40 02 k1 | c0 00").expect("d0 00");
    Conversation(gateway).send("10 r s'MQTT' 04 00 k10 s''").expect("20 02 00 02").expect_close();
    Conversation(gateway).send("c0 00").expect_close();
    Conversation(gateway).login("carol").send("e0 00").expect_close();
    Conversation again(gateway);
    again.login(at_home(0, "alice"));
    alice.expect_close();

    const auto answer = get(gateway, "/metrics");
    CHECK(answer.status == 200);
    CHECK(has(answer.head, "Content-Type: text/plain; version=0.0.4"));
    const auto& text = answer.body;
    CHECK(sum(text, "pulsegate_connections_accepted_total") == 6);
    CHECK(sum(text, "pulsegate_logins_total") == 4);
    CHECK(sum(text, "pulsegate_logins_refused_total") == 1);
    CHECK(sum(text, "pulsegate_takeovers_total") == 1);
    CHECK(sum(text, "pulsegate_bad_packets_total") == 1);
    CHECK(sum(text, "pulsegate_sessions") == 2);
    CHECK(sum(text, "pulsegate_subscriptions") == 0);
    CHECK(sum(text, "pulsegate_users_online") == 2);
    CHECK(sum(text, "pulsegate_users_known") == 3);
    CHECK(sum(text, "pulsegate_messages_received_total") == 2);
    CHECK(sum(text, "pulsegate_messages_sent_total") == 1);
    CHECK(sum(text, "pulsegate_messages_dropped_total", "reason=\"refused\"") == 1);
    CHECK(sum(text, "pulsegate_packets_received_total", "type=\"connect\"") == 5);
    CHECK(sum(text, "pulsegate_packets_received_total", "type=\"pingreq\"") == 2);
    CHECK(sum(text, "pulsegate_packets_sent_total", "type=\"connack\"") == 5);
    CHECK(sum(text, "pulsegate_packets_sent_total", "type=\"pingresp\"") == 2);
    CHECK(sum(text, "pulsegate_bytes_received_total") > 50);
    CHECK(sum(text, "pulsegate_bytes_sent_total") > 20);
    CHECK(sum(text, "pulsegate_expiries_total") == 0);
    CHECK(sum(text, "pulsegate_expiry_false_alarms_total") == 0);
    CHECK(sum(text, "pulsegate_login_timeouts_total") == 0);
    CHECK(sum(text, "pulsegate_limit_hits_total") == 0);
    CHECK(sum(text, "process_max_fds") > 0);
    CHECK(sum(text, "pulsegate_open_files_headroom") > 0);
    CHECK(sum(text, "pulsegate_wheel_slot_nodes") == sum(text, "pulsegate_connections"));
    CHECK(sum(text, "pulsegate_loop_lag_seconds_count") >= 0);
    CHECK(has(text, "# TYPE pulsegate_loop_lag_seconds histogram"));
    CHECK(has(text, "# HELP pulsegate_logins_total "));
}

TEST_CASE("/api/v1/wheel shows 30 slots of each shard, and their counts add up") {
    Gateway gateway;
    std::vector<Conversation> clients;
    for (int i = 0; i < 50; ++i) {
        clients.emplace_back(gateway);
        clients.back().login("client" + std::to_string(i), Version::v3_1_1,
                             static_cast<std::uint16_t>(1 + i * 7));
    }
    const auto answer = get(gateway, "/api/v1/wheel");
    CHECK(answer.status == 200);
    const auto object = answer.object();
    CHECK(object.at("tick_ms").to_number<int>() == 1000);
    const auto& shards = object.at("shards").as_array();
    REQUIRE(shards.size() == 2);
    int total = 0;
    for (std::size_t i = 0; i < 2; ++i) {
        const auto& shard = shards[i].as_object();
        CHECK(shard.at("shard").to_number<std::size_t>() == i);
        const auto& slots = shard.at("slots").as_array();
        CHECK(slots.size() == 30);
        int here = 0;
        for (const auto& slot : slots) here += slot.to_number<int>();
        CHECK(here == shard.at("connections").to_number<int>());
        CHECK(here > 0);
        CHECK(shard.at("current").to_number<int>() == shard.at("tick").to_number<int>() % 30);
        total += here;
    }
    CHECK(total == 50);
}

TEST_CASE("a user is told as JSON, whichever shard is home") {
    Gateway gateway;
    for (const unsigned shard : {0u, 1u}) {
        const auto name = at_home(shard, "alice");
        Conversation phone(gateway);
        phone.send("10 r s'MQTT' 04 82 k10 s'phone' s'" + name + "'").expect("20 02 00 00");
        Conversation desk(gateway);
        desk.send("10 r s'MQTT' 04 82 k10 s'desk' s'" + name + "'").expect("20 02 00 00");
        const auto online = get(gateway, "/api/v1/users/" + name);
        CHECK(online.status == 200);
        CHECK(online.object().at("user").as_string() == name);
        CHECK(online.object().at("state").as_string() == "online");
        CHECK(online.object().at("devices").as_array().size() == 2);
        const auto version = online.object().at("version").to_number<std::uint64_t>();

        Conversation watcher(gateway);
        watcher.login("watcher").send("82 r k1 s'presence/" + name + "' 00").expect("90 03 k1 00");
        const auto told = watcher.packet();
        phone.send("e0 00").expect_close();
        desk.send("e0 00").expect_close();
        const auto gone = watcher.packet();
        const auto offline = get(gateway, "/api/v1/users/" + name);
        CHECK(offline.object().at("state").as_string() == "offline");
        CHECK(offline.object().at("cause").as_string() == "logout");
        CHECK(offline.object().at("devices").as_array().empty());
        CHECK(offline.object().at("version").to_number<std::uint64_t>() > version);
        // The same words both ways.
        CHECK(offline.body == std::string(published(gone).payload) + "\n");
    }
}

TEST_CASE("an unknown user is a 404 with JSON") {
    const Gateway gateway;
    const auto answer = get(gateway, "/api/v1/users/nobody");
    CHECK(answer.status == 404);
    CHECK(answer.object().at("error").as_string() == "unknown user");
    CHECK(answer.object().at("user").as_string() == "nobody");
}

TEST_CASE("a user's name in a URL is percent-encoded") {
    Gateway gateway;
    Conversation c(gateway);
    c.login("a/b c,d%\xC3\xA9");
    for (const char* target :
         {"/api/v1/users/a%2Fb%20c%2Cd%25%C3%A9", "/api/v1/users/a%2fb%20c,d%25%c3%a9"}) {
        const auto answer = get(gateway, target);
        CHECK(answer.status == 200);
        CHECK(answer.object().at("user").as_string() == "a/b c,d%\xC3\xA9");
    }
    const auto answer = get(gateway, "/api/v1/users?ids=a%2Fb%20c%2Cd%25%C3%A9");
    CHECK(answer.object().at("users").as_array().size() == 1);
    CHECK(get(gateway, "/api/v1/users/a/b%20c,d%25%C3%A9").status == 404);
    for (const char* broken : {"/api/v1/users/%", "/api/v1/users/%4", "/api/v1/users/%zz",
                               "/api/v1/users?ids=%", "/api/v1/users?ids=a,%4"}) {
        CAPTURE(broken);
        CHECK(get(gateway, broken).status == 400);
    }
}

TEST_CASE("many users are asked about at once, and answered in their order") {
    Gateway gateway;
    Conversation alice(gateway);
    Conversation bob(gateway);
    alice.login("alice");
    bob.login("bob");
    const auto answer = get(gateway, "/api/v1/users?ids=bob,nobody,alice");
    CHECK(answer.status == 200);
    const auto object = answer.object();
    const auto& users = object.at("users").as_array();
    REQUIRE(users.size() == 2);
    CHECK(users[0].as_object().at("user").as_string() == "bob");
    CHECK(users[1].as_object().at("user").as_string() == "alice");
    CHECK(object.at("unknown").as_array() == json::array{"nobody"});

    const auto unknown = get(gateway, "/api/v1/users?ids=x,y");
    CHECK(unknown.status == 200);
    CHECK(unknown.object().at("unknown").as_array() == json::array{"x", "y"});
}

TEST_CASE("a question about users with a mistake, or about too many, is a 400") {
    const Gateway gateway;
    std::string ids = "u";
    for (int i = 1; i < 1000; ++i) ids += ",u";
    CHECK(get(gateway, "/api/v1/users?ids=" + ids).status == 200);
    for (const std::string& target :
         {std::string("/api/v1/users?ids="), std::string("/api/v1/users?id=alice"),
          std::string("/api/v1/users?limit=0"), std::string("/api/v1/users?limit=1001"),
          std::string("/api/v1/users?state=away"), std::string("/api/v1/users?after=x"),
          std::string("/api/v1/users?after=9999-1-1"), std::string("/api/v1/users?after=0-1-1-1"),
          "/api/v1/users?ids=" + ids + ",u"}) {
        const auto answer = get(gateway, target);
        CHECK(answer.status == 400);
        CHECK(answer.object().contains("error"));
    }
}

TEST_CASE("an unknown path gets a 404, and a wrong method a 405") {
    const Gateway gateway;
    for (const char* target : {"//", "/healthz/", "/api", "/api/v1/users/", "/api/v2/wheel", "*"})
        CHECK(get(gateway, target).status == 404);
    for (const char* verb : {"POST", "PUT", "DELETE", "OPTIONS"}) {
        const auto answer = get(gateway, "/healthz", verb);
        CHECK(answer.status == 405);
        CHECK(has(answer.head, "Allow: GET, HEAD\r\n"));
    }
}

TEST_CASE("HEAD is GET without the body") {
    const Gateway gateway;
    for (const char* target : {"/healthz", "/api/v1/users/nobody"}) {
        const auto with = get(gateway, target);
        const auto without = get(gateway, target, "HEAD");
        CHECK(without.status == with.status);
        CHECK(without.body.empty());
        CHECK(without_date(without.head) == without_date(with.head));
        CHECK(has(with.head, "Content-Length: " + std::to_string(with.body.size()) + "\r\n"));
    }
}

TEST_CASE("every answer has the date") {
    const Gateway gateway;
    for (const char* target : {"/healthz", "/nothing", "/chat", "/api/v1/openapi.json"}) {
        CAPTURE(target);
        const auto head = get(gateway, target).head;
        CHECK(without_date(head) != head);
    }
    CHECK(has(ask(gateway, "garbage\r\n\r\n").head, "\r\nDate: "));
}

TEST_CASE("several requests go over one HTTP connection") {
    const Gateway gateway;
    const std::string one = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const auto answer =
        ask(gateway, one + "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + one +
                         "GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    std::size_t ok = 0;
    const auto all = answer.head + answer.body;
    for (std::size_t at = 0; (at = all.find("HTTP/1.1 ", at)) != std::string::npos; ++at) ++ok;
    CHECK(ok == 4);
    CHECK(has(all, "HTTP/1.1 404"));
}

TEST_CASE("garbage instead of HTTP is a 400, and harms nobody") {
    const Gateway gateway;
    for (const char* garbage : {"garbage\r\n\r\n", "GET\r\n\r\n", "GET /healthz FTP/1.1\r\n\r\n",
                                "GET /healthz HTTP/1.1\r\nno colon\r\n\r\n", "\x10\x0c\r\n\r\n"}) {
        CAPTURE(garbage);
        CHECK(ask(gateway, garbage).status == 400);
    }
    CHECK(ask(gateway, "GET /" + std::string(200'000, 'x') + " HTTP/1.1\r\n\r\n").status == 400);
    // Beast throws when one field alone is longer than 64 KiB.
    for (const int size : {65'000, 65'540, 70'000, 120'000})
        CHECK(ask(gateway, "GET /healthz HTTP/1.1\r\nX: " + std::string(size, 'x') + "\r\n\r\n")
                  .status == 400);
    Conversation half(gateway.http_port());
    half.send_bytes("GET /healthz HT").close();
    Conversation rude(gateway.http_port());
    rude.send_bytes("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").reset();
    CHECK(get(gateway, "/healthz").status == 200);
}

TEST_CASE("without a token no web page can use the API") {
    const Gateway gateway;
    const auto status = [&](const std::string& fields, const std::string& target = "/metrics") {
        CAPTURE(fields);
        return ask(gateway,
                   "GET " + target + " HTTP/1.1\r\n" + fields + "Connection: close\r\n\r\n")
            .status;
    };
    CHECK(status("Host: localhost:8080\r\n") == 200);
    CHECK(status("Host: 127.0.0.1\r\n") == 200);
    CHECK(status("Host: [::1]:8080\r\n") == 200);
    CHECK(status("") == 400);  // no browser leaves it out
    CHECK(status("Host: localhost:8080\r\nOrigin: http://localhost:3000\r\n") == 200);
    CHECK(status("Host: evil.example:8080\r\n") == 403);
    CHECK(status("Host: 192.0.2.7\r\n") == 403);
    CHECK(status("Host: localhost\r\nOrigin: https://evil.example\r\n") == 403);
    CHECK(status("Host: localhost\r\nOrigin: null\r\n") == 403);
    CHECK(status("Host: gateway.internal\r\n", "/healthz") == 200);
    const auto refusal = ask(gateway,
                             "DELETE /api/v1/bans?address=192.0.2.1 HTTP/1.1\r\nHost: "
                             "evil.example\r\nConnection: close\r\n\r\n");
    CHECK(refusal.status == 403);
    CHECK(has(refusal.body, "{\"error\":\"without admin tokens, the gateway"));
}

TEST_CASE(
    "a request with a missing, repeated or malformed Host field gets a 400 and ends the "
    "connection") {
    const Gateway gateway;
    const auto answer = [&](const std::string& header) {
        return ask(gateway, "GET /healthz " + header + "\r\nGET /healthz HTTP/1.0\r\n\r\n");
    };
    for (const char* header :
         {"HTTP/1.1\r\n", "HTTP/1.1\r\nHost:\r\n", "HTTP/1.1\r\nHost: a\r\nHost: a\r\n",
          "HTTP/1.1\r\nHost: [::1]evil.com\r\n", "HTTP/1.1\r\nHost: localhost:80@evil\r\n",
          "HTTP/1.1\r\nHost: a/b\r\n", "HTTP/1.1\r\nHost: a b\r\n", "HTTP/1.1\r\nHost: a:b\r\n",
          "HTTP/1.1\r\nHost: [::1\r\n", "HTTP/1.1\r\nHost: [a]\r\n", "HTTP/1.1\r\nHost: :80\r\n",
          "HTTP/1.0\r\nHost: a\r\nHost: a\r\n"}) {
        CAPTURE(header);
        const Answer refused = answer(header);
        CHECK(refused.status == 400);
        CHECK(has(refused.body, "Host field"));
        CHECK_FALSE(has(refused.body, "HTTP/1.1 "));
    }
    for (const char* header :
         {"HTTP/1.0\r\n", "HTTP/1.1\r\nHost: chat.example:8080\r\nConnection: close\r\n",
          "HTTP/1.1\r\nHost: [::1]:8080\r\nConnection: close\r\n",
          "HTTP/1.1\r\nHost: [::ffff:192.0.2.1]\r\nConnection: close\r\n",
          "HTTP/1.1\r\nHost: a_b.example.:\r\nConnection: close\r\n"}) {
        CAPTURE(header);
        CHECK(answer(header).status == 200);
    }
}

TEST_CASE("a target may be a whole URL, and its host replaces the Host field") {
    const Gateway gateway;
    const auto status = [&](const std::string& target, const std::string& fields) {
        CAPTURE(target);
        return ask(gateway,
                   "GET " + target + " HTTP/1.1\r\n" + fields + "Connection: close\r\n\r\n")
            .status;
    };
    const std::string host = "Host: localhost\r\n";
    CHECK(status("http://localhost:8080/healthz", host) == 200);
    CHECK(status("HTTPS://[::1]/api/v1/users?ids=nobody", host) == 200);
    CHECK(status("http://127.0.0.1", host) == status("/", host));
    CHECK(status("http://localhost/nothing", host) == 404);
    CHECK(status("http://localhost/metrics", "Host: evil.example\r\n") == 200);
    CHECK(status("http://evil.example/metrics", host) == 403);
    CHECK(status("http://localhost/metrics", "") == 400);
    for (const char* target : {"http:///healthz", "http://", "http://ann@localhost/healthz",
                               "http://localhost:x/healthz"})
        CHECK(status(target, host) == 400);
    CHECK(status("ftp://localhost/healthz", host) == 404);
}

TEST_CASE(
    "an unknown transfer coding gets a 400, and the bytes after it are not read as a request") {
    const Gateway gateway;
    const std::string request = "POST /api/v1/publish HTTP/1.1\r\nHost: localhost\r\n";
    for (const char* coding : {"xchunked", "identity", "gzip", "chunked, identity", "gzip, chunked",
                               "chunked, chunked", "chunked\r\nTransfer-Encoding: chunked", ""}) {
        CAPTURE(coding);
        const Answer refused =
            ask(gateway, request + "Transfer-Encoding: " + coding +
                             "\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        CHECK(refused.status == 400);
        CHECK_FALSE(has(refused.body, "HTTP/1.1 "));
    }
    CHECK(ask(gateway, "POST /api/v1/publish HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n")
              .status == 400);
    CHECK(ask(gateway, request + "Transfer-Encoding: Chunked\r\nConnection: close\r\n\r\n"
                                 "2\r\n[]\r\n0\r\n\r\n")
              .status == 200);
}

TEST_CASE("fields behind a chunked body are no part of the header") {
    const Gateway gateway;
    const Answer answer =
        ask(gateway,
            "POST /api/v1/publish HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            "Transfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n"
            "Origin: https://evil.example\r\nConnection: keep-alive\r\n\r\n");
    CHECK(answer.status == 200);
}

TEST_CASE("a client that waits for 100 Continue before its body gets it, or the answer") {
    const Gateway gateway;
    const std::string expects = " HTTP/1.1\r\nHost: localhost\r\nExpect: 100-Continue\r\n";
    Conversation c(gateway.http_port());
    c.send_bytes("POST /api/v1/publish" + expects + "Content-Length: 2\r\n\r\n")
        .expect("'HTTP/1.1 100 Continue' 0d0a 0d0a")
        .send_bytes("[]")
        .expect("'HTTP/1.1 200 OK'");
    for (const auto& [beginning, status] :
         {std::pair{"POST /api/v1/publish", 413}, {"POST /healthz", 405}, {"PUT /nothing", 405}}) {
        CAPTURE(beginning);
        const std::string length = status == 413 ? "99999999" : "2";
        const auto refused =
            ask(gateway, beginning + expects + "Content-Length: " + length + "\r\n\r\n");
        CHECK(refused.status == status);
        CHECK(has(refused.head, "Connection: close"));
    }
    // Without a body, or when it is there already, no word is needed.
    CHECK(ask(gateway, "GET /healthz" + expects + "Connection: close\r\n\r\n").status == 200);
    CHECK(ask(gateway,
              "POST /api/v1/publish" + expects + "Connection: close\r\nContent-Length: 2\r\n\r\n[]")
              .status == 200);
}

TEST_CASE("silent HTTP connections lock nobody out") {
    const Gateway gateway;
    const std::string request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    std::vector<Conversation> silent;
    for (int i = 0; i < 200; ++i) {
        silent.emplace_back(gateway.http_port());
        if (i % 2) silent.back().send_bytes(request.substr(0, 20));
        if (i % 20 == 0) CHECK(get(gateway, "/healthz").status == 200);
    }
    CHECK(get(gateway, "/healthz").status == 200);
    // Those that have waited longest had to go, and the others can still ask.
    silent.front().expect_close();
    silent.back().send_bytes(request.substr(20)).expect("'HTTP/1.1 200 OK'");
}
