#include <doctest/doctest.h>
#include <fmt/format.h>

#include <future>
#include <string>

#include "server/shard/shard_admin.h"
#include "tests/support/gateway.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

// Bans of users are in the memory of a shard and in the store, which must not differ.

using namespace pulsegate;

namespace {

/// A gateway whose data outlives it.
struct KeptGateway {
    explicit KeptGateway(const TemporaryFolder& folder)
        : gateway([&](Config& config) { config.data = folder.path("data"); }) {}

    std::string ask(const std::string& verb, const std::string& query) const {
        Conversation asked(gateway.http_port());
        asked.send_bytes(
            fmt::format("{} /api/v1/bans?{} HTTP/1.1\r\nHost: localhost\r\n"
                        "Connection: close\r\n\r\n",
                        verb, query));
        return asked.rest();
    }
    bool has_banned(const std::string& user) const {
        return has(ask("GET", "user=" + user), "\"administrator\"");
    }

    Gateway gateway;
};

/// Keeps a shard busy.
class BusyShard {
public:
    BusyShard(const Gateway& gateway, std::size_t shard) : gateway_(gateway) {
        ShardAdmin::send(*gateway.shards()[shard],
                         [until = free_.get_future().share()](ShardAdmin&) { until.wait(); });
    }
    /// Returns when the shard has done what it was asked meanwhile.
    ~BusyShard() {
        free_.set_value();
        gateway_.settle();
    }
    BusyShard(const BusyShard&) = delete;
    BusyShard& operator=(const BusyShard&) = delete;

private:
    const Gateway& gateway_;
    std::promise<void> free_;
};

}  // namespace

TEST_CASE("a ban that a shard sets too late for the answer is stored") {
    const TemporaryFolder folder;
    const std::string user = at_home(1, "bob");
    {
        const KeptGateway first(folder);
        {
            const BusyShard busy(first.gateway, 1);
            CHECK(has(first.ask("PUT", "user=" + user), " 503 "));
        }
        CHECK(first.has_banned(user));
    }
    CHECK(KeptGateway(folder).has_banned(user));
}

TEST_CASE("the lift of a ban that comes too late for the answer is stored, too") {
    const TemporaryFolder folder;
    const std::string user = at_home(1, "bob");
    {
        const KeptGateway first(folder);
        CHECK(has(first.ask("PUT", "user=" + user), " 200 "));
        {
            const BusyShard busy(first.gateway, 1);
            CHECK(has(first.ask("DELETE", "user=" + user), " 503 "));
        }
        CHECK_FALSE(first.has_banned(user));
    }
    CHECK_FALSE(KeptGateway(folder).has_banned(user));
}
