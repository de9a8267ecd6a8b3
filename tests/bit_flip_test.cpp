// A database in which the disk has changed a bit: what is left may be little, but not wrong.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "server/store/sqlite_ledger.h"
#include "tests/support/ledger_model.h"
#include "tests/support/quiet_log.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

using namespace pulsegate;

namespace {

constexpr unsigned usual_flips = sanitized ? 20 : 60;

/// All with PULSEGATE_LEDGER_CRASHES, as the ledger's other disasters.
unsigned flips() { return std::getenv("PULSEGATE_LEDGER_CRASHES") ? 2000 : usual_flips; }

void fill(const std::string& folder) {
    SqliteLedger ledger({.folder = folder, .fsync = Fsync::never});
    Ledger::Visitor nobody;
    ledger.load(nobody);
    for (OwnerId owner = 1; owner <= 20; ++owner) {
        const auto name = fmt::format("user-{}", owner);
        std::vector<Operation> operations{
            PutOwner{.owner = owner, .user = name, .client = name, .expiry = 60, .protocol = 5},
            PutSubscription{.owner = owner, .filter = "t/" + name},
            PutUser{.name = name, .version = owner}};
        for (Stamp i = 0; i < 5; ++i) {
            const Stamp stamp = owner * 10 + i;
            const auto text = message(fmt::format("t/{}", stamp), std::string(stamp * 20, 'x'));
            operations.push_back(
                PutMessage{.stamp = stamp, .message = text, .receivers = {{.owner = owner}}});
            operations.push_back(PutRetained{.stamp = stamp, .message = text});
            operations.push_back(PutDelayed{.id = stamp << 31, .user = name, .message = text});
        }
        ledger.submit({std::move(operations), {}});
    }
}

/// Topic, properties, size and hash of each message that is delivered, from `t/` on.
std::set<std::string> bodies(const StoredState& state) {
    std::set<std::string> found;
    std::istringstream lines(state.text());
    for (std::string line; std::getline(lines, line);) {
        const bool has_body =
            line.starts_with("body") || line.starts_with("retained") || line.starts_with("delayed");
        if (!has_body || line.ends_with("is missing")) continue;
        const auto topic = line.find("t/");
        found.insert(topic == std::string::npos ? line : line.substr(topic));
    }
    return found;
}

StoredState read(const std::string& folder) {
    SqliteLedger ledger({.folder = folder, .fsync = Fsync::never});
    StoredState state;
    state.read(ledger);
    return state;
}

}  // namespace

TEST_CASE("a flipped bit takes messages or the start, and changes none") {
    const QuietLog quiet;
    const TemporaryFolder original;
    fill(original.path("data"));
    const auto written = bodies(read(original.path("data")));
    REQUIRE(written.size() == 100);
    const std::string pages = original.read("data/pulsegate.db");
    unsigned whole = 0;
    for (unsigned seed = 0; seed < flips(); ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        std::string flipped = pages;
        const auto place = random() % flipped.size();
        flipped[place] = static_cast<char>(flipped[place] ^ (1 << random() % 8));
        const TemporaryFolder copy;
        std::filesystem::create_directory(copy.path("data"));
        copy.write("data/pulsegate.db", flipped);
        std::set<std::string> found;
        // What a first start finds damaged in the midst of reading, the next one salvages.
        for (int start = 0; start < 2; ++start) {
            try {
                found = bodies(read(copy.path("data")));
                break;
            } catch (const std::runtime_error& error) {
                CHECK(std::string(error.what()).find('\n') == std::string::npos);
            }
        }
        for (const std::string& body : found) {
            CAPTURE(body);
            CHECK(written.contains(body));
        }
        whole += found.size() == written.size();
    }
    CHECK(whole > flips() / 2);  // most bits are free room, or what has no body
}
