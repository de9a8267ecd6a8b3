#include "server/store/pages/wal_file.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "server/store/sqlite_ledger.h"
#include "tests/support/quiet_log.h"
#include "tests/support/test_store.h"

using namespace pulsegate;

namespace {

constexpr std::size_t header = 32;
constexpr std::size_t frame = 24 + 4096;

/// A log as a killed process leaves it.
class KilledLog {
public:
    KilledLog() {
        const std::string data = folder_.path("data");
        SqliteLedger ledger({.folder = data, .fsync = Fsync::never});
        StoredState state;
        state.read(ledger);
        for (OwnerId owner = 1; owner <= 12; ++owner)
            CHECK(commit(ledger, {session(owner), put(owner, {owner}, std::string(900, 'x'))}) ==
                  Outcome::committed);
        bytes = folder_.read("data/pulsegate.db-wal");
    }

    WalFile with(const std::string& text) const { return WalFile(folder_.write("log", text)); }

    /// What is written of the good frames.
    std::string mended(const WalFile& log) const {
        CHECK(log.write_good(folder_.path("mended"), {}) == "");
        return folder_.read("mended");
    }

    std::string bytes;

private:
    TemporaryFolder folder_;
};

std::vector<std::uint32_t> pages(const WalFile& log) {
    std::vector<std::uint32_t> found;
    for (const WalFrame& each : log.frames()) found.push_back(each.page);
    return found;
}

}  // namespace

TEST_CASE("a log that a killed process has left has all of its frames") {
    const QuietLog quiet;
    const KilledLog killed;
    const WalFile log = killed.with(killed.bytes);
    CHECK(log.frames().size() == (killed.bytes.size() - header) / frame);
    CHECK_FALSE(log.is_damaged());
    CHECK(log.missing_pages().empty());
    CHECK(killed.mended(log) == killed.bytes);
}

TEST_CASE("most single bits of a log that are flipped are put right, and none is put wrong") {
    const QuietLog quiet;
    const KilledLog killed;
    const auto original = pages(killed.with(killed.bytes));
    std::mt19937 random(7);
    std::size_t repaired = 0;
    constexpr std::size_t flips = 400;
    for (std::size_t i = 0; i < flips; ++i) {
        std::string bytes = killed.bytes;
        const std::size_t place = i < 56 ? i : random() % bytes.size();
        bytes[place] = static_cast<char>(bytes[place] ^ 1 << random() % 8);
        CAPTURE(place);
        const WalFile log = killed.with(bytes);
        std::array<char, 4096> page{};
        for (std::size_t each = 0; each < log.frames().size(); ++each) {
            if (!log.frames()[each].is_good) continue;
            CHECK(log.frames()[each].page == original[each]);
            REQUIRE(log.read(each, page.data()));
            const std::size_t at = header + each * frame + 24;
            CHECK(killed.bytes.compare(at, page.size(), page.data(), page.size()) == 0);
        }
        const auto bad = std::ranges::count(log.frames(), false, &WalFrame::is_good);
        // Of the upper bits of a word many change the checksum in the same way.
        const std::size_t in_frame = place < header ? 8 : (place - header) % frame;
        const bool is_salt = in_frame >= 8 && in_frame < 16;
        const bool is_checksum = in_frame >= 16 && in_frame < 24;
        if (is_salt || (place % 4 < 2 && !is_checksum)) CHECK(bad == 0);
        CHECK(bad <= (is_checksum ? 2 : 1));
        repaired += bad == 0 && log.frames().size() == original.size();
        const WalFile mended = killed.with(killed.mended(log));
        CHECK_FALSE(mended.is_damaged());
        CHECK(mended.frames().size() + static_cast<std::size_t>(bad) == log.frames().size());
    }
    CHECK(repaired > flips / 2);
}

TEST_CASE("a frame that is lost is missing unless its page was written again") {
    const QuietLog quiet;
    const KilledLog killed;
    const WalFile whole = killed.with(killed.bytes);
    for (std::size_t i = 0; i + 2 < whole.frames().size(); ++i) {
        std::string bytes = killed.bytes;
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(header + i * frame + 200), 512,
                    'y');
        const WalFile log = killed.with(bytes);
        CHECK(log.is_damaged());
        const auto all = pages(whole);
        const bool comes_again = std::find(all.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                           all.end(), all[i]) != all.end();
        CHECK(log.missing_pages().empty() == comes_again);
    }
}

TEST_CASE("a log that ends within a commit, or has older frames after its end, is sound") {
    const QuietLog quiet;
    const KilledLog killed;
    for (std::size_t size = header; size <= killed.bytes.size(); size += 1030) {
        const WalFile log = killed.with(killed.bytes.substr(0, size));
        CHECK_FALSE(log.is_damaged());
    }
    std::string bytes = killed.bytes;
    bytes += std::string(3 * frame, 'z');
    CHECK_FALSE(killed.with(bytes).is_damaged());
    const KilledLog earlier;
    bytes = killed.bytes + earlier.bytes.substr(header);
    const WalFile log = killed.with(bytes);
    CHECK_FALSE(log.is_damaged());
    CHECK(log.frames().size() == (killed.bytes.size() - header) / frame);
}
