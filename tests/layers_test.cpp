#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
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

/// Each include of the files with paths that begin so: all in a folder and below it, or the header
/// and the source of one thing.
std::vector<Include> includes_of(const std::string& beginning) {
    const fs::path root = PULSEGATE_SOURCE_DIR;
    const bool is_folder = fs::is_directory(root / beginning);
    const fs::path folder = is_folder ? fs::path(beginning) : fs::path(beginning).parent_path();
    std::vector<Include> found;
    std::size_t files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
        const auto kind = entry.path().extension();
        if (kind != ".h" && kind != ".cpp") continue;
        if (!is_folder && fs::relative(entry.path(), root).replace_extension() != beginning)
            continue;
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

/// Like `check_only`, for folders that may use any library.
void check_of_ours(const std::string& folder, const std::vector<std::string>& allowed) {
    for (const Include& include : includes_of(folder)) {
        if (!include.quoted) continue;
        CAPTURE(include.by);
        CAPTURE(include.what);
        CHECK(begins_with_any(include.what, allowed));
    }
}

void check_never(const std::string& folder, const std::vector<std::string>& forbidden) {
    for (const Include& include : includes_of(folder)) {
        CAPTURE(include.by);
        CAPTURE(include.what);
        CHECK_FALSE(begins_with_any(include.what, forbidden));
    }
}

std::string folder_of(const std::string& path) { return fs::path(path).parent_path().string(); }

/// Each folder in a folder includes only those before it; "." is the folder itself.
void check_order(const std::string& folder, const std::vector<std::string>& order) {
    const auto place_of = [&](const std::string& path) {
        const std::string inner = fs::path(folder_of(path)).lexically_relative(folder).string();
        return std::find(order.begin(), order.end(), inner) - order.begin();
    };
    for (const Include& include : includes_of(folder)) {
        CAPTURE(include.by);
        CAPTURE(include.what);
        REQUIRE(place_of(include.by) < std::ssize(order));
        if (include.quoted && include.what.starts_with(folder + "/"))
            CHECK(place_of(include.what) <= place_of(include.by));
    }
}

/// What each module, or each folder, includes.
using IncludeGraph = std::map<std::string, std::set<std::string>>;

void add_reached(const IncludeGraph& graph, const std::string& from,
                 std::set<std::string>& reached) {
    const auto found = graph.find(from);
    if (found == graph.end()) return;
    for (const std::string& next : found->second)
        if (reached.insert(next).second) add_reached(graph, next, reached);
}

/// Each circle has all nodes that reach each other.
std::set<std::set<std::string>> circles_of(IncludeGraph graph) {
    // Most nodes are on no circle: they include none of the nodes that are left.
    const auto is_ground = [&](const auto& entry) {
        return std::none_of(entry.second.begin(), entry.second.end(),
                            [&](const std::string& node) { return graph.contains(node); });
    };
    while (std::erase_if(graph, is_ground) > 0) {
    }
    IncludeGraph reached;
    for (const auto& entry : graph) add_reached(graph, entry.first, reached[entry.first]);
    std::set<std::set<std::string>> circles;
    for (const auto& [node, others] : reached) {
        std::set<std::string> circle;
        for (const std::string& other : others)
            if (reached.contains(other) && reached.at(other).contains(node)) circle.insert(other);
        if (!circle.empty()) circles.insert(circle);
    }
    return circles;
}

std::string text_of(const std::set<std::string>& circle) {
    std::string text;
    for (const std::string& node : circle) text += "\n  " + node;
    return text;
}

/// A header and its source are one module.
std::string module_of(const std::string& path) {
    return fs::path(path).replace_extension().string();
}

}  // namespace

TEST_CASE("folders include each other in one direction only") {
    IncludeGraph included;
    for (const char* program : {"server", "loadgen"})
        for (const Include& include : includes_of(program)) {
            // It is above all folders. The headers beside it are below them.
            if (include.by == "loadgen/main.cpp") continue;
            const std::string folder = folder_of(include.by);
            if (include.quoted && folder != folder_of(include.what))
                included[folder].insert(folder_of(include.what));
        }
    CHECK(included.contains("server/session/users"));
    CHECK(included.contains("loadgen/swarm"));
    for (const auto& circle : circles_of(included))
        FAIL_CHECK("these folders include each other:" << text_of(circle));
}

TEST_CASE("modules include each other in one direction only") {
    // These circles stay, because the code would be worse without them.
    const std::set<std::set<std::string>> known{
        // Connections add themselves to the queues of their shard. The queues keep them alive, and
        // call them when it is their turn. Only virtual functions would part them, for each turn.
        {"server/transport/connections/connection",
         "server/transport/connections/connection_context",
         "server/transport/connections/flush_list",
         "server/transport/connections/parked_connections",
         "server/transport/connections/turn_queue"},
        // A shard owns its peers, which are shards. Its broker calls it and the others by them.
        {"server/shard/shard", "server/shard/shard_peers"},
    };
    IncludeGraph included;
    for (const char* folder : {"protocol", "wheel", "server", "loadgen"})
        for (const Include& include : includes_of(folder)) {
            const std::string by = module_of(include.by);
            const std::string what = module_of(include.what);
            if (include.quoted && by != what) included[by].insert(what);
        }
    CHECK(included.contains("protocol/decode"));
    CHECK(included.contains("loadgen/swarm/swarm"));
    const auto circles = circles_of(included);
    for (const auto& circle : circles)
        if (!known.contains(circle))
            FAIL_CHECK("these modules include each other:" << text_of(circle));
    for (const auto& circle : known)
        CHECK_MESSAGE(circles.contains(circle), "there is no such circle:" << text_of(circle));
}

TEST_CASE("a circle of includes is found whatever includes it and whatever it includes") {
    const std::set<std::set<std::string>> expected{{"b", "c", "d"}, {"f", "g"}};
    CHECK(circles_of({{"a", {"b"}},
                      {"b", {"c"}},
                      {"c", {"d", "e"}},
                      {"d", {"b", "f"}},
                      {"e", {"stdlib"}},
                      {"f", {"g"}},
                      {"g", {"f", "e"}}}) == expected);
    CHECK(circles_of({{"a", {"b", "c"}}, {"b", {"c"}}, {"c", {}}}).empty());
}

// The linker would take one of them for both, without a word.
TEST_CASE("no two headers that may meet in one program define types of the same name") {
    const fs::path root = PULSEGATE_SOURCE_DIR;
    std::map<std::string, std::string> defined_by;
    for (const char* folder : {"protocol", "wheel", "server", "tests/support"})
        for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
            if (entry.path().extension() != ".h") continue;
            std::ifstream in(entry.path());
            for (std::string line; std::getline(in, line);) {
                std::istringstream words(line);
                std::string kind;
                std::string name;
                words >> kind >> name;
                if (name.starts_with("[[")) words >> name;
                const bool is_type = line.starts_with("struct ") || line.starts_with("class ");
                if (!is_type || line.ends_with(";")) continue;
                const auto [other, is_new] = defined_by.emplace(name, entry.path().string());
                CAPTURE(name);
                CAPTURE(other->second);
                CHECK_MESSAGE(is_new, entry.path().string());
            }
        }
    CHECK(defined_by.contains("Server"));
}

TEST_CASE("no folder of the server holds more than a reader can survey") {
    struct Size {
        std::size_t files = 0;
        std::size_t lines = 0;
    };
    constexpr Size most{.files = 25, .lines = 3000};
    const fs::path root = PULSEGATE_SOURCE_DIR;
    std::map<std::string, Size> sizes;
    for (const auto& entry : fs::recursive_directory_iterator(root / "server")) {
        const auto kind = entry.path().extension();
        if (kind != ".h" && kind != ".cpp") continue;
        Size& size = sizes[fs::relative(entry.path().parent_path(), root).string()];
        ++size.files;
        std::ifstream in(entry.path());
        for (std::string line; std::getline(in, line);) ++size.lines;
    }
    REQUIRE(sizes.size() > 1);
    for (const auto& entry : sizes) {
        CAPTURE(entry.first);
        CHECK(entry.second.files <= most.files);
        CHECK(entry.second.lines <= most.lines);
    }
}

TEST_CASE("protocol and wheel need the standard library and themselves, nothing else") {
    check_only("protocol", {"protocol/"});
    check_only("wheel", {"wheel/"});
}

TEST_CASE("the lowest folders include nothing of the folders that use them") {
    check_of_ours("server/base", {"protocol/", "wheel/", "server/base/"});
    check_never("server/base", {"boost/asio", "boost/beast"});
    check_of_ours("server/loop", {"server/base/", "server/loop/"});
    check_of_ours("server/web", {"server/web/"});
    check_of_ours("server/backend", {"server/base/", "server/backend/"});
    check_of_ours("server/limits", {"protocol/", "wheel/", "server/base/", "server/limits/"});
    check_of_ours("server/upgrade", {"server/base/", "server/upgrade/"});
    check_of_ours("server/message", {"protocol/", "server/base/", "server/message/"});
    check_of_ours("server/auth",
                  {"protocol/", "server/base/", "server/message/topics.h", "server/auth/"});
    check_of_ours("server/routing",
                  {"protocol/", "server/base/", "server/message/", "server/routing/"});
}

TEST_CASE("only code that reads packets and topics includes their parsers") {
    const std::vector<std::string> reading{"protocol/decode.h", "protocol/topic.h",
                                           "protocol/packet.h"};
    for (const char* file :
         {"protocol/utf8", "protocol/decode_error", "protocol/reader", "protocol/proxy",
          "protocol/websocket", "server/base/text/url", "server/auth/passwords", "server/auth/jwt",
          "server/auth/json_claims", "server/auth/secret_file", "server/settings", "server/http"})
        check_never(file, reading);
}

TEST_CASE("sessions and routing know nothing of sockets, HTTP, shards and the server") {
    const std::vector<std::string> above{"server/transport", "server/http",     "server/shard",
                                         "server/server.h",  "server/settings", "server/loop",
                                         "boost/asio",       "boost/beast",     "sys/",
                                         "netinet/"};
    check_never("server/session", above);
    check_never("server/routing", above);
}

TEST_CASE("each folder in a folder includes only those that stand before it") {
    check_order("server/base", {".", "memory", "secrets", "text", "files"});
    check_never("server/base/memory",
                {"server/base/secrets/", "server/base/text/", "server/base/files/"});
    check_never("server/base/secrets", {"server/base/memory/"});
    check_never("server/base/text", {"server/base/memory/", "server/base/secrets/"});
    check_never("server/base/files",
                {"server/base/memory/", "server/base/secrets/", "server/base/text/"});
    check_order("server/auth", {".", "passwords"});
    check_order("server/transport", {"tls", "channels", "handshakes", "connections", "."});
    check_order("server/session", {"terms", "trace", "users", "durable", "state", "events",
                                   "sending", "rooms", "delivery", "requests", "life", "."});
    check_order("server/settings", {"toml", "."});
    check_order("server/store", {"ledger", "files", "pages", "database", "backup", "rows", "mirror",
                                 "start", "tables", "."});
    check_order("server/cluster", {"rules", "link", "."});
    check_order("server/http", {"serving", "questions", "messages", "events", "operation",
                                "metrics", "dashboard", "chat", "users", "."});
}

TEST_CASE("a client's state on its way to another process knows nothing of the gateway") {
    check_of_ours("server/upgrade", {"protocol/", "server/base/", "server/upgrade/"});
    check_never("server/handover", {"server/server.h", "server/session", "server/transport"});
}

TEST_CASE("limits know nothing of connections and sessions") {
    check_never("server/limits",
                {"server/session", "server/routing", "server/transport", "server/http",
                 "server/shard", "server/server.h", "server/settings", "boost/asio/io_context",
                 "boost/beast", "sys/socket.h"});
}

TEST_CASE("the transport knows links, but neither sessions, logins nor the server") {
    check_never("server/transport", {"server/session/state/session.h", "server/session/broker.h",
                                     "server/routing", "server/auth", "server/login", "server/http",
                                     "server/shard", "server/server.h", "server/settings"});
}

TEST_CASE("logins join transport and sessions, but don't know the server") {
    check_never("server/login", {"server/routing", "server/http", "server/shard", "server/server.h",
                                 "server/settings"});
}

TEST_CASE("authentication and access rules know nothing of sessions and sockets") {
    check_never("server/auth", {"server/session", "server/routing", "server/transport",
                                "server/http", "server/shard", "server/server.h", "server/settings",
                                "boost/asio", "boost/beast", "sys/socket.h"});
}

TEST_CASE("the store knows messages, but none of its users") {
    check_of_ours("server/store",
                  {"protocol/packet.h", "server/base/", "server/message/message.h",
                   "server/message/stored_floor.h", "server/cluster/row_", "server/store/"});
    check_never("server/store", {"boost/asio", "boost/beast"});
}

TEST_CASE("nodes know how rows are written to Redis, but not what is in them") {
    check_of_ours("server/cluster",
                  {"server/base/", "server/redis/", "server/web/", "server/cluster/"});
    check_of_ours("server/cluster/rules", {"server/base/", "server/cluster/rules/"});
}

TEST_CASE("the webhook knows the log of events, but nothing of its writers") {
    check_of_ours("server/events", {"server/base/", "server/backend/", "server/auth/secret_file.h",
                                    "server/store/", "server/events/"});
    check_never("server/events", {"sqlite3.h", "server/store/database/", "boost/beast"});
    check_only("server/events/event_kind", {});
}

TEST_CASE("only the store knows SQLite") {
    for (const Include& include : includes_of("server")) {
        CAPTURE(include.by);
        if (!include.by.starts_with("server/store/")) CHECK(include.what != "sqlite3.h");
    }
    check_never("server/store/ledger", {"sqlite3.h", "server/store/database/"});
}

TEST_CASE("only the server and its shards join everything") {
    check_never("server/http", {"server/transport", "server/server.h"});
}

TEST_CASE("the load generator knows nothing of the server") {
    check_never("loadgen", {"server/", "tests/"});
}

TEST_CASE("the gateway knows nothing of the load generator") {
    check_never("server", {"loadgen/", "tests/"});
}

TEST_CASE("kill uses clients and reports of the load generator, but its judges have no sockets") {
    check_never("loadgen/kill", {"boost/asio", "loadgen/lab/", "loadgen/swarm/"});
    for (const auto* judge : {"message_checker", "presence_checker", "will_loss"})
        check_never(std::string("loadgen/kill/") + judge,
                    {"boost/", "sys/", "loadgen/kill/client.h", "loadgen/client/", "loadgen/net/"});
}
