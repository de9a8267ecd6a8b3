#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/redis/redis_connection.h"
#include "server/redis/redis_remedy.h"
#include "server/redis/redis_target.h"
#include "server/redis/redis_terms.h"
#include "tests/support/redis_server.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

using namespace pulsegate;

namespace {

using Kind = RedisReply::Kind;
using Clock = RedisConnection::Clock;

Clock::time_point soon_enough() { return Clock::now() + std::chrono::seconds(60); }
Clock::time_point in(std::chrono::milliseconds time) { return Clock::now() + time; }

/// Why no connection can be had.
std::string refusal(const RedisTarget& target) {
    return complaint([&] { RedisConnection(target, soon_enough()); });
}

RedisTarget with_password(RedisTarget target, std::string password) {
    target.password = std::move(password);
    return target;
}

/// Gives each connection the same answer to any request, and hangs up.
class CannedServer {
public:
    explicit CannedServer(std::string words) : words_(std::move(words)) {}
    ~CannedServer() {
        boost::system::error_code ignored;
        boost::asio::ip::tcp::socket last(io_);
        last.connect(acceptor_.local_endpoint(), ignored);
        thread_.join();
    }

    RedisTarget target() const {
        RedisTarget target;
        target.addresses = {{"127.0.0.1", acceptor_.local_endpoint().port()}};
        return target;
    }

private:
    void serve() {
        boost::system::error_code ignored;
        auto socket = acceptor_.accept(ignored);
        boost::asio::write(socket, boost::asio::buffer(words_), ignored);
        socket.shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
        std::array<char, 4096> asked;  // or the kernel would reset the connection
        while (socket.read_some(boost::asio::buffer(asked), ignored) > 0) {
        }
    }

    std::string words_;
    boost::asio::io_context io_{};
    boost::asio::ip::tcp::acceptor acceptor_{io_, {boost::asio::ip::address_v4::loopback(), 0}};
    std::thread thread_{[this] { serve(); }};
};

std::string canned_refusal(const std::string& words) {
    const CannedServer server(words);
    return refusal(server.target());
}

/// A primary's answers at the login, with this INFO.
std::string primary_that_says(const std::string& info) {
    return fmt::format("*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n${}\r\n{}\r\n+OK\r\n", info.size(), info);
}

/// Of a start to a primary with this INFO.
std::string canned_objection(const std::string& info, const RedisTerms& terms) {
    const std::string bulk = fmt::format("${}\r\n{}\r\n", info.size(), info);
    const CannedServer server(primary_that_says(info) + bulk);
    RedisConnection redis(server.target(), soon_enough());
    return complaint([&] { check_terms(redis, terms, soon_enough()); });
}

}  // namespace

// -- one Redis --

TEST_CASE("commands are answered in order, also if several are under way") {
    const RedisServer server;
    RedisConnection redis(server.target(), soon_enough());
    CHECK(redis.address() == fmt::format("127.0.0.1:{}", server.port()));
    CHECK(redis.run_id().size() == 40);

    const std::string binary("a\0\r\nb", 5);
    CHECK(redis.call({"SET", "key", binary}, soon_enough()).text == "OK");
    CHECK(redis.call({"GET", "key"}, soon_enough()).text == binary);
    CHECK(redis.call({"GET", "nothing"}, soon_enough()).kind == Kind::nil);
    CHECK(redis.call({"NONSENSE"}, soon_enough()).is_error());
    CHECK(redis.call({"SET", "empty", {}}, soon_enough()).text == "OK");
    CHECK(redis.call({"GET", "empty"}, soon_enough()).kind == Kind::text);

    for (int i = 0; i < 100; ++i) redis.send({"INCR", "counter"});
    for (int i = 0; i < 100; ++i) CHECK(redis.receive(soon_enough()).integer == i + 1);
}

TEST_CASE("values of many megabytes go to Redis and come back") {
    const RedisServer server;
    RedisConnection redis(server.target(), soon_enough());
    const std::string large(20 << 20, 'x');
    redis.send({"SET", "large", large});
    redis.send({"GET", "large"});
    CHECK(redis.receive(soon_enough()).text == "OK");
    CHECK(redis.receive(soon_enough()).text == large);
}

TEST_CASE("a Redis that answers nothing is given up at the deadline, for good") {
    RedisServer server;
    RedisConnection redis(server.target(), soon_enough());
    server.stop();
    const auto began = Clock::now();
    const auto why = complaint([&] { redis.call({"PING"}, in(std::chrono::milliseconds(50))); });
    CHECK(Clock::now() - began >= std::chrono::milliseconds(50));
    CHECK(why == "Redis at " + redis.address() + ": no answer in time");
    server.go_on();
    CHECK(complaint([&] { redis.call({"PING"}, soon_enough()); }) == why);
    RedisConnection again(server.target(), soon_enough());
    CHECK(again.call({"PING"}, soon_enough()).text == "PONG");
}

TEST_CASE("a connection ends with its Redis, and a restart has another run id") {
    RedisServer server;
    RedisConnection redis(server.target(), soon_enough());
    CHECK(redis.call({"SET", "key", "kept"}, soon_enough()).text == "OK");
    server.kill();
    CHECK(has(complaint([&] { redis.call({"PING"}, soon_enough()); }), redis.address()));
    const std::string gone = refusal(server.target());
    CHECK(has(gone, "Connection refused"));
    RedisTarget twice = server.target();  // as if two Sentinels had named it
    twice.addresses.push_back(twice.addresses[0]);
    CHECK(refusal(twice) == gone);
    server.start();
    RedisConnection again(server.target(), soon_enough());
    CHECK(again.run_id() != redis.run_id());
    CHECK(again.call({"GET", "key"}, soon_enough()).text == "kept");
}

TEST_CASE("a host name is resolved, and one that does not exist is named") {
    const RedisServer server;
    RedisTarget target = server.target();
    target.addresses[0].host = "localhost";
    CHECK(refusal(target).empty());
    target.addresses[0].host = "nowhere.invalid";
    CHECK(has(refusal(target), "nowhere.invalid"));
}

// -- logins --

TEST_CASE("a password is shown, and a missing or wrong one is named with the setting") {
    const RedisServer server({"--requirepass", "secret"});
    CHECK(refusal(with_password(server.target(), "secret")).empty());
    CHECK(has(refusal(server.target()), "name a file with the password"));
    const auto why = refusal(with_password(server.target(), "mistyped"));
    CHECK(has(why, "check the password in cluster-password-file"));
    CHECK_FALSE(has(why, "mistyped"));
}

TEST_CASE("a password for a Redis without one is refused with the remedy") {
    const RedisServer server;
    CHECK(
        has(refusal(with_password(server.target(), "secret")), "leave cluster-password-file out"));
}

TEST_CASE("a user needs permission for what a login asks, and the error says which") {
    const RedisServer server;
    RedisConnection administrator(server.target(), soon_enough());
    const auto allow = [&](std::initializer_list<std::string_view> rules) {
        std::vector<std::string_view> words{"ACL", "SETUSER", "pulsegate"};
        words.insert(words.end(), rules);
        REQUIRE(administrator.call(words, soon_enough()).text == "OK");
    };
    RedisTarget target = with_password(server.target(), "secret");
    target.user = "pulsegate";
    CHECK(has(refusal(target), "and the user, who stands before the host"));
    allow({"on", ">secret", "~{p*}*", "+@all", "-@dangerous"});
    CHECK(has(refusal(target), "ACL SETUSER USER +role"));
    allow({"+role", "+info", "-client"});
    CHECK(refusal(target).empty());
    target.password = "";
    CHECK(has(refusal(target), "WRONGPASS"));
    allow({"nopass"});
    CHECK(refusal(target).empty());
}

TEST_CASE("an error of Redis comes with a remedy if there is one") {
    const auto explained = [](const char* text) {
        return with_remedy({.kind = Kind::error, .text = text});
    };
    CHECK(explained("ERR something new") == "ERR something new");
    CHECK(has(explained("NOPERM No permissions to access a key"), "~{p*}* ~{pg}*"));
    CHECK(has(explained("NOPERM this user has no permissions to run the 'config|get' command"),
              "ACL SETUSER USER +config|get"));
    CHECK(has(explained("OOM command not allowed"), "raise its maxmemory"));
}

// -- TLS --

TEST_CASE("TLS needs a certificate that the CA has signed for this host") {
    const RedisServer server({}, RedisServer::Kind::tls);
    RedisTarget target = server.target();
    RedisConnection redis(target, soon_enough());
    const std::string large(1 << 20, 'x');
    CHECK(redis.call({"SET", "large", large}, soon_enough()).text == "OK");
    CHECK(redis.call({"GET", "large"}, soon_enough()).text == large);

    target.addresses[0].host = "localhost";
    CHECK(refusal(target).empty());
    target.addresses[0].host = "127.0.0.1";
    target.ca_file = "";
    CHECK(has(refusal(target), "name in cluster-ca a PEM file"));
    target.ca_file = server.folder() + "/nothing.pem";
    CHECK(has(refusal(target), "cluster-ca"));
    std::ofstream(server.folder() + "/empty.pem").close();
    target.ca_file = server.folder() + "/empty.pem";
    CHECK(has(refusal(target), "name a PEM file"));
    target.ca_file = server.folder() + "/redis.key";
    CHECK(has(refusal(target), "name a PEM file"));
}

TEST_CASE("the error says so if only one end uses TLS") {
    const RedisServer with_tls({}, RedisServer::Kind::tls);
    RedisTarget target = with_tls.target();
    target.tls = false;
    CHECK(has(refusal(target), "write rediss://"));
    const RedisServer plain;
    target.addresses = plain.target().addresses;
    target.tls = true;
    const auto why = complaint([&] { RedisConnection(target, in(std::chrono::seconds(2))); });
    CAPTURE(why);
    CHECK(has(why, "write redis://"));
}

// -- which server is the primary --

TEST_CASE("the first primary of several servers is used") {
    const RedisServer primary;
    const RedisServer replica({"--replicaof", fmt::format("127.0.0.1 {}", primary.port())});
    RedisServer gone;
    gone.kill();
    CHECK(has(refusal(replica.target()),
              fmt::format("is a replica of 127.0.0.1:{}", primary.port())));

    RedisTarget target = gone.target();
    for (const RedisServer* server : {&replica, &primary})
        target.addresses.push_back(server->target().addresses[0]);
    CHECK(RedisConnection(target, soon_enough()).address() == target.addresses[2].text());
    target.addresses.pop_back();
    CHECK(has(refusal(target), "Connection refused"));
    CHECK(has(refusal(target), "is a replica"));
}

TEST_CASE("a server that answers nothing takes its share of the time only") {
    RedisServer silent;
    const RedisServer primary;
    silent.stop();
    RedisTarget target = silent.target();
    target.addresses.push_back(primary.target().addresses[0]);
    // Half of it is enough to be answered by the other one on a busy machine.
    const RedisConnection redis(target, in(std::chrono::seconds(6)));
    CHECK(redis.address() == target.addresses[1].text());
}

TEST_CASE("a Sentinel says which server is the primary") {
    const RedisServer primary({"--requirepass", "secret"});
    const RedisServer sentinel(
        {"--sentinel monitor", fmt::format("chat 127.0.0.1 {} 1", primary.port())},
        RedisServer::Kind::sentinel);
    CHECK(has(refusal(sentinel.target()), "redis+sentinel://HOST:PORT/NAME"));
    RedisTarget target = with_password(sentinel.target(), "secret");
    target.sentinel_name = "chat";
    CHECK(RedisConnection(target, soon_enough()).address() == primary.target().addresses[0].text());
    target.sentinel_name = "shop";
    CHECK(has(refusal(target), "knows no primary named shop"));
}

TEST_CASE("a Sentinel that asks for a password is shown that of Redis") {
    const RedisServer primary({"--requirepass", "secret"});
    const RedisServer sentinel(
        {"--sentinel monitor", fmt::format("chat 127.0.0.1 {} 1", primary.port()), "--requirepass",
         "secret"},
        RedisServer::Kind::sentinel);
    RedisTarget target = sentinel.target();
    target.sentinel_name = "chat";
    CHECK(has(refusal(target), "cluster-password-file"));
    CHECK(refusal(with_password(target, "secret")).empty());
}

TEST_CASE("a server that is still reading its data is not used yet") {
    CHECK(canned_refusal(primary_that_says("run_id:1\r\nloading:0\r\n")).empty());
    const std::string loading = primary_that_says("run_id:1\r\nloading:1\r\n");
    CHECK(has(canned_refusal(loading), "still reading its data"));
    const CannedServer first(loading);
    const CannedServer second("-DENIED Redis is running in protected mode because\r\n");
    RedisTarget both = first.target();
    both.addresses.push_back(second.target().addresses.front());
    CHECK_THROWS_AS(RedisConnection(both, soon_enough()), RedisLoadingError);
}

TEST_CASE("a server that is no Redis, or refuses everybody, is named") {
    CHECK(has(canned_refusal("HTTP/1.1 400 Bad Request\r\n\r\n"), "malformed reply"));
    CHECK(has(canned_refusal(""), "it closed the connection"));
    CHECK(has(canned_refusal("+OK\r\n"), "is not a primary"));
    CHECK(has(canned_refusal("-DENIED Redis is running in protected mode because\r\n"),
              "protected mode; set a password in Redis"));
    CHECK(has(canned_refusal("-ERR max number of clients reached\r\n"), "raise its maxclients"));
}

// -- what a start demands --

TEST_CASE("a Redis that promises less than asked is refused with the command that helps") {
    const RedisServer server;
    RedisConnection redis(server.target(), soon_enough());
    const auto objection = [&](RedisTerms terms) {
        return complaint([&] { check_terms(redis, terms, soon_enough()); });
    };
    const auto set = [&](std::string_view name, std::string_view value) {
        REQUIRE(redis.call({"CONFIG", "SET", name, value}, soon_enough()).text == "OK");
    };
    const RedisTerms always{};
    const RedisTerms everysec{.durability = RedisDurability::everysec};
    const RedisTerms none{.durability = RedisDurability::none};
    CHECK(objection(always) == "");
    set("no-appendfsync-on-rewrite", "yes");
    CHECK(has(objection(everysec), "CONFIG SET no-appendfsync-on-rewrite no"));
    CHECK(objection(none) == "");
    set("no-appendfsync-on-rewrite", "no");

    set("appendfsync", "everysec");
    CHECK(has(objection(always), "CONFIG SET appendfsync always"));
    CHECK(objection(everysec) == "");
    set("appendfsync", "no");
    CHECK(has(objection(everysec), "CONFIG SET appendfsync everysec"));
    set("appendfsync", "always");
    set("appendonly", "no");
    CHECK(has(objection(always), "CONFIG SET appendonly yes"));
    CHECK(has(objection(everysec), "CONFIG SET appendonly yes"));
    CHECK(objection(none) == "");

    set("maxmemory-policy", "allkeys-lru");
    CHECK(has(objection(none), "CONFIG SET maxmemory-policy noeviction"));
}

TEST_CASE("only replicas that have the data count") {
    const RedisServer primary({"--repl-diskless-sync-delay", "0"});
    RedisConnection redis(primary.target(), soon_enough());
    const RedisTerms terms{.replicas = 1};
    const auto objection = [&] {
        return complaint([&] { check_terms(redis, terms, soon_enough()); });
    };
    CHECK(has(objection(), "0 replicas are connected, but cluster-replicas requires 1"));
    const RedisServer replica({"--replicaof", fmt::format("127.0.0.1 {}", primary.port())});
    REQUIRE(redis.call({"SET", "key", "value"}, soon_enough()).text == "OK");
    CHECK(redis.call({"WAIT", "1", "60000"}, soon_enough()).integer == 1);
    CHECK(objection() == "");

    const std::string loading =
        "redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\n"
        "slave0:ip=10.0.0.2,port=6379,state=wait_bgsave\r\n";
    CHECK(has(canned_objection(loading, {.durability = RedisDurability::none, .replicas = 1}),
              "0 replicas"));
}

TEST_CASE("a Redis before version 7, or of a Redis Cluster, is refused") {
    const RedisTerms none{.durability = RedisDurability::none};
    CHECK(has(canned_objection("redis_version:6.2.14\r\n", none), "needs Redis 7 or later"));
    const std::string policy = "maxmemory_policy:noeviction\r\n";
    CHECK(canned_objection("redis_version:10.1.0\r\n" + policy, none) == "");
    CHECK(has(canned_objection("redis_version:7.2.0\r\nredis_mode:cluster\r\n" + policy, none),
              "cluster-enabled no"));
}

TEST_CASE("if the Redis user may not read the data of a start, the error names the permission") {
    const RedisServer server;
    RedisConnection administrator(server.target(), soon_enough());
    administrator.call({"ACL", "SETUSER", "pulsegate", "on", ">secret", "~{p*}*", "~{pg}*", "+@all",
                        "-@dangerous", "+role", "+info"},
                       soon_enough());
    RedisTarget target = with_password(server.target(), "secret");
    target.user = "pulsegate";
    RedisConnection redis(target, soon_enough());
    CHECK(has(complaint([&] { check_terms(redis, {}, soon_enough()); }),
              "ACL SETUSER USER +config|get"));
    administrator.call({"ACL", "SETUSER", "pulsegate", "+config|get"}, soon_enough());
    CHECK(complaint([&] { check_terms(redis, {}, soon_enough()); }) == "");
}

TEST_CASE("a field of INFO is found by its whole name") {
    const std::string_view info = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nrun:x\r\n";
    CHECK(info_field(info, "run_id") == "abc");
    CHECK(run_of("abc", info) == "abc");
    CHECK(run_of("abc", "master_replid:123\r\nmaster_replid2:0000\r\n") == "abc");
    CHECK(run_of("abc", "master_replid:456\r\nmaster_replid2:0123\r\n") == "abc/456");
    CHECK(info_field(info, "run") == "x");
    CHECK(info_field(info, "redis") == "");
}
