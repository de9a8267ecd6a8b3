#include "server/store/database/file_size.h"

#include <doctest/doctest.h>

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
