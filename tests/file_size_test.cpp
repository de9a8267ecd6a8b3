#include "server/store/database/file_size.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

#include "server/store/start/opening.h"
#include "tests/support/temporary_folder.h"

using namespace pulsegate;

namespace {

constexpr int rows_of_a_kb = 20'000;

struct FilledStore {
    FilledStore() {
        database.run("BEGIN; CREATE TABLE filling(id INTEGER PRIMARY KEY, bytes BLOB)");
        Statement insert(database, "INSERT INTO filling VALUES(?, zeroblob(1000))");
        for (int i = 0; i < rows_of_a_kb; ++i) insert.run(i);
        database.run("COMMIT");
        size.measure();
    }

    void keep(int rows) {
        Statement(database, "DELETE FROM filling WHERE id >= ?").run(rows);
        size.measure();
    }
    /// Returns the number of commits.
    int shrink() {
        int commits = 0;
        for (; size.is_to_shrink(); ++commits) {
            database.run("BEGIN");
            size.shrink();
            database.run("COMMIT");
            size.measure();
            REQUIRE(database.ok());
        }
        return commits;
    }

    TemporaryFolder folder;
    OpenStore store = open_store(folder.path("."), Fsync::never, nullptr);
    Database& database = *store.database;
    FileSize size{database};
};

std::size_t used_pages(Database& database) {
    std::size_t used = 0;
    Statement(database,
              "SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count")
        .each([&](const Row& row) { used = row.as<std::size_t>(0); });
    return used;
}

}  // namespace

TEST_CASE("a file of which most is unused gets smaller, a little with each commit") {
    FilledStore store;
    const auto full = store.size.used();
    CHECK(full > rows_of_a_kb * 1000);
    CHECK_FALSE(store.size.is_to_shrink());

    store.keep(rows_of_a_kb * 2 / 3);
    CHECK(store.size.used() < full * 3 / 4);
    CHECK_FALSE(store.size.is_to_shrink());

    store.keep(rows_of_a_kb / 10);
    const auto used = store.size.used();
    CHECK(used < full / 5);
    REQUIRE(store.size.is_to_shrink());
    CHECK(store.shrink() > 10);
    CHECK(store.size.used() <= used);
    int rows = 0;
    Statement(store.database, "SELECT count(*) FROM filling").each([&](const Row& row) {
        rows = row.as<int>(0);
    });
    CHECK(rows == rows_of_a_kb / 10);
}

TEST_CASE(
    "the bytes in use are those that SQLite counts, after each commit, rollback and checkpoint") {
    FilledStore store;
    Database& database = store.database;
    Statement put(database, "INSERT OR REPLACE INTO filling VALUES(?, zeroblob(?))");
    Statement update(database, "UPDATE filling SET bytes = zeroblob(1000) WHERE id = ?");
    Statement remove(database, "DELETE FROM filling WHERE id BETWEEN ? AND ?");
    std::mt19937 random(11);
    for (int round = 0; round < 300; ++round) {
        database.run("BEGIN");
        store.size.shrink();
        for (auto steps = random() % 4; steps > 0; --steps) {
            const auto id = static_cast<int>(random() % (2 * rows_of_a_kb));
            switch (random() % 3) {
                case 0: update.run(id); break;
                case 1: put.run(id, static_cast<int>(random() % 100'000)); break;
                default: remove.run(id, id + static_cast<int>(random() % 500));
            }
        }
        database.run(random() % 4 == 0 ? "ROLLBACK" : "COMMIT");
        store.size.measure();
        REQUIRE(database.ok());
        REQUIRE(store.size.used() == used_pages(database) * 4096);
        if (round % 50 == 0) database.checkpoint(SQLITE_CHECKPOINT_RESTART);
    }
}
