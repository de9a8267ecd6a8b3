#include <doctest/doctest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "server/settings/config.h"
#include "tests/support/parsed_settings.h"
#include "tests/support/temporary_folder.h"

using namespace pulsegate;

TEST_CASE("a node of a cluster has its data in Redis, and no folder") {
    const TemporaryFolder folder;
    const std::string password = folder.write("password", "secret\n");
    ::chmod(password.c_str(), 0600);
    const std::vector<std::string> arguments{"--cluster=rediss://gate@10.0.0.1:6380,10.0.0.2",
                                             "--cluster-password-file=" + password,
                                             "--cluster-ca=redis-ca.pem",
                                             "--cluster-durability=everysec",
                                             "--cluster-replicas=2",
                                             "--node-name=west-1",
                                             "--node-lease=20s",
                                             "--link-listen=0.0.0.0:7000",
                                             "--link-address=west.example:7001",
                                             "--link-cert=node.pem",
                                             "--link-key=node.key",
                                             "--link-ca=nodes.pem"};
    const Config config = parsed(arguments);
    const ClusterSettings& cluster = config.cluster;
    REQUIRE(cluster.redis);
    CHECK(cluster.redis->text() == "rediss://gate@10.0.0.1:6380,10.0.0.2:6379");
    CHECK(cluster.redis->password == "secret");
    CHECK(cluster.redis->ca_file == "redis-ca.pem");
    CHECK(cluster.durability == RedisDurability::everysec);
    CHECK(cluster.replicas == 2);
    CHECK(cluster.node_name == "west-1");
    CHECK(cluster.node_lease == 20'000);
    CHECK(cluster.link_listen == "0.0.0.0:7000");
    CHECK(cluster.link_address == "west.example:7001");
    CHECK(cluster.link_cert == "node.pem");
    CHECK(cluster.link_key == "node.key");
    CHECK(cluster.link_ca == "nodes.pem");
    CHECK(config.data.empty());
    CHECK(config.stores());
    CHECK(config.keeps_presence());

    std::string lines;
    for (const std::string& argument : arguments) {
        const auto equals = argument.find('=');
        lines += argument.substr(2, equals - 2) + " = \"" + argument.substr(equals + 1) + "\"\n";
    }
    const Config read = parsed(SettingsFile(lines).arguments());
    CHECK(read.cluster.redis->password == "secret");
    CHECK(read.cluster.link_address == "west.example:7001");
}

TEST_CASE("a node of a cluster needs to be told no more than its Redis") {
    const Config config = parsed({"--cluster", "redis://10.0.0.1"});
    const ClusterSettings& cluster = config.cluster;
    CHECK(cluster.durability == RedisDurability::always);
    CHECK(cluster.replicas == 0);
    CHECK_FALSE(cluster.node_name.empty());
    CHECK(cluster.node_lease == 8'000);
    CHECK(cluster.link_listen == "127.0.0.1:7883");
    CHECK(cluster.link_address.empty());
    CHECK_FALSE(parsed({}).cluster.redis);
    CHECK(parsed({}).data == "data");
    CHECK_FALSE(parsed({"--data", "none"}).stores());
}

TEST_CASE("an edge forwards no packets that would hold up its link") {
    const std::vector<std::string> arguments{"--cluster=redis://10.0.0.1", "--output-budget=64MiB"};
    auto larger = arguments;
    larger.emplace_back("--max-packet-size=16777217");
    CHECK(parsed(larger).max_packet_size == 16'777'217);
    larger.emplace_back("--cluster-edge");
    CHECK_THROWS_WITH_AS(parsed(larger),
                         "cluster-edge: an edge forwards packets of at most 16777216 bytes; lower "
                         "max-packet-size (16777217)",
                         ConfigError);
    auto allowed = arguments;
    allowed.insert(allowed.end(), {"--max-packet-size=16MiB", "--cluster-edge"});
    CHECK(parsed(allowed).cluster.edge);
}
