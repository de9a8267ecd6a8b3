#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct Include {
    std::string by;    ///< the file, from the root of the source tree
    std::string what;  ///< without the brackets or quotes
    bool quoted;
};

/// Every include of the files in one folder and below it.
std::vector<Include> includes_of(const std::string& folder) {
    const fs::path root = PULSEGATE_SOURCE_DIR;
    std::vector<Include> found;
    std::size_t files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
        const auto kind = entry.path().extension();
        if (kind != ".h" && kind != ".cpp") continue;
        ++files;
        std::ifstream in(entry.path());
        for (std::string line; std::getline(in, line);) {
            if (!line.starts_with("#include ")) continue;
            found.push_back({fs::relative(entry.path(), root).string(),
                             line.substr(10, line.find_first_of("\">", 10) - 10), line[9] == '"'});
        }
    }
    REQUIRE(files > 0);
    return found;
}

bool begins_with_any(std::string_view text, const std::vector<std::string>& beginnings) {
    return std::any_of(beginnings.begin(), beginnings.end(),
                       [&](const std::string& begin) { return text.starts_with(begin); });
}

void check_only(const std::string& folder, const std::vector<std::string>& allowed) {
    for (const Include& include : includes_of(folder)) {
        CAPTURE(include.by);
        CAPTURE(include.what);
        if (include.quoted)
            CHECK(begins_with_any(include.what, allowed));
        else  // the standard library's headers have neither folder nor suffix
            CHECK(include.what.find_first_of("/.") == std::string::npos);
    }
}

void check_never(const std::string& folder, const std::vector<std::string>& forbidden) {
    for (const Include& include : includes_of(folder)) {
        CAPTURE(include.by);
        CAPTURE(include.what);
        CHECK_FALSE(begins_with_any(include.what, forbidden));
    }
}

}  // namespace

TEST_CASE("protocol and wheel need the standard library and themselves, nothing else") {
    check_only("protocol", {"protocol/"});
    check_only("wheel", {"wheel/"});
}

TEST_CASE("sessions and routing know nothing of sockets, HTTP, shards and the server") {
    const std::vector<std::string> above{"server/transport", "server/http",     "server/shard.h",
                                         "server/server.h",  "server/config.h", "server/mailbox.h",
                                         "boost/asio",       "boost/beast",     "sys/",
                                         "netinet/"};
    check_never("server/session", above);
    check_never("server/routing", above);
}

TEST_CASE("what limits newcomers knows nothing of connections and sessions") {
    check_never("server/admission",
                {"server/session", "server/routing", "server/transport", "server/http",
                 "server/shard.h", "server/server.h", "server/config.h", "boost/asio/io_context",
                 "boost/beast", "sys/socket.h"});
}

TEST_CASE("the transport knows links, but neither sessions nor who runs it") {
    check_never("server/transport",
                {"server/session/session.h", "server/session/broker.h", "server/routing",
                 "server/http", "server/shard.h", "server/server.h", "server/config.h"});
}

TEST_CASE("who may come in and what they may do is decided without sessions and sockets") {
    check_never("server/auth", {"server/session", "server/routing", "server/transport",
                                "server/http", "server/shard.h", "server/server.h",
                                "server/config.h", "boost/asio", "boost/beast", "sys/socket.h"});
}

TEST_CASE("only the server and its shards join everything") {
    check_never("server/http", {"server/transport", "server/server.h"});
}

TEST_CASE("the load generator knows nothing of the server") {
    check_never("loadgen", {"server/", "tests/"});
}
