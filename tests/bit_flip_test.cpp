// A database in which the disk has changed bits.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "server/store/pages/page_checksum.h"
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
            PutUser{.name = name, .version = owner},
            PutBan{.user = name, .client = "", .address = "", .ends = 1 << 30, .reason = "spam"},
            PutRevocation{.user = name, .before = 5},
            PutMember{.topic = "room/lobby", .user = name, .since = 3},
            PutRoomPosition{.user = name, .position = 4},
            PutSessionExpiry{.owner = owner, .ends = 1 << 30, .position = 2},
            PutIncoming{.owner = owner, .packet_id = 9},
            PutExchange{.owner = owner, .packet_id = 8, .stamp = owner * 10},
            PutWill{.owner = owner, .message = message("will", "gone")},
            PutEvent{.body = name}};
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

constexpr const char* told = "the start fails, or the ledger ends";

/// What a ledger finds, as text.
std::string read(const std::string& folder) {
    try {
        SqliteLedger ledger({.folder = folder, .fsync = Fsync::never});
        StoredState state;
        state.read(ledger);
        return ledger.close() ? state.text() : told;
    } catch (const std::runtime_error&) {
        return told;
    }
}

bool copy_was_set_aside(const std::string& folder) {
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (entry.path().filename().string().starts_with("pulsegate.db.bad-")) return true;
    return false;
}

}  // namespace

TEST_CASE("a flipped bit changes nothing, whichever table or index it is in") {
    const QuietLog quiet;
    const TemporaryFolder original;
    fill(original.path("data"));
    const std::string written = read(original.path("data"));
    REQUIRE(written.find("is missing") == std::string::npos);
    const std::string pages = original.read("data/pulsegate.db");
    for (unsigned seed = 0; seed < flips(); ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        std::string flipped = pages;
        const auto place = random() % flipped.size();
        CAPTURE(place);
        flipped[place] = static_cast<char>(flipped[place] ^ (1 << random() % 8));
        const TemporaryFolder copy;
        std::filesystem::create_directory(copy.path("data"));
        copy.write("data/pulsegate.db", flipped);
        CHECK(read(copy.path("data")) == written);
    }
}

TEST_CASE("a page with more than one wrong bit is not believed, and the damage is logged") {
    const TemporaryFolder original;
    fill(original.path("data"));
    const std::string written = read(original.path("data"));
    const std::string pages = original.read("data/pulsegate.db");
    const std::size_t count = pages.size() / checked_page_size;
    const QuietLog quiet;
    for (unsigned seed = 0; seed < flips(); ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        std::string damaged = pages;
        const std::size_t page = random() % count;
        CAPTURE(page);
        for (int i = 0; i < 2; ++i) {
            const auto place = page * checked_page_size + random() % checked_page_size;
            damaged[place] = static_cast<char>(damaged[place] ^ (1 << random() % 8));
        }
        const TemporaryFolder copy;
        std::filesystem::create_directory(copy.path("data"));
        copy.write("data/pulsegate.db", damaged);
        std::string found = read(copy.path("data"));
        if (found == told) found = read(copy.path("data"));  // salvages
        CHECK(found != told);
        const bool is_set_aside = copy_was_set_aside(copy.path("data"));
        CHECK((found == written || is_set_aside));
    }
}
