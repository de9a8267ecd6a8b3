#include "server/store/mirror/mirror.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/store/mirror/mirrored_row.h"
#include "server/store/rows/row_codec.h"
#include "server/store/sqlite_ledger.h"
#include "server/store/start/import.h"
#include "server/store/start/opening.h"
#include "tests/support/ledger_script.h"
#include "tests/support/memory_rows.h"
#include "tests/support/quiet_log.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_store.h"

using namespace pulsegate;
using namespace std::chrono_literals;

namespace {

using Answer = RowStore::Answer;
using WriteFate = MemoryRows::Fate;

SqliteLedger::Options mirrored_in(MemoryRows& rows) {
    return {.patience = 20ms, .first_pause = 1ms, .rows = &rows};
}

/// What a start finds.
std::string found_in(MemoryRows& rows) {
    SqliteLedger ledger(mirrored_in(rows));
    StoredState state;
    state.read(ledger);
    return state.text();
}

std::set<std::string> fields_of(const MemoryRows& rows, const std::string& table,
                                Partition partition) {
    std::set<std::string> fields;
    for (const auto& [key, value] : rows.rows())
        if (key.table == table && key.partition == partition) fields.insert(key.field);
    return fields;
}

/// Two users in different partitions.
const std::string user_ann = "ann";
const std::string user_bob = "bob";

/// Plays a script against rows that fail by chance. The process may die within a write.
class MirroredLife {
public:
    MirroredLife(const LedgerScript& script, std::uint32_t seed) : script_(script), random_(seed) {}

    /// Empty, or what is wrong.
    std::string live() {
        const std::size_t dies_at = random_() % script_.units.size();
        std::size_t told = 0;
        {
            SqliteLedger ledger(mirrored_in(rows_));
            StoredState nothing;
            nothing.read(ledger);
            rows_.judge_by([this](const auto&, bool) { return fate(); });
            for (; told < dies_at; ++told)
                if (!take(ledger, told)) return "a unit was refused";
            dies_ = true;
            submit(ledger, script_.units[told]).wait();
        }
        rows_.judge_by({});
        const std::string found = found_in(rows_);
        if (found == script_.states[told] || found == script_.states[told + 1]) return "";
        return fmt::format("after {} units there is\n{}\ninstead of\n{}", told, found,
                           script_.states[told]);
    }

private:
    WriteFate fate() {
        if (dies_ && !is_dead_)
            return is_dead_ = true, WriteFate{Answer::fenced, random_() % 2 == 0};
        if (is_dead_) return {Answer::fenced, false};
        if (random_() % 4 > 0) return {};
        return {Answer::away, random_() % 2 == 0};
    }

    /// What is refused for a while is submitted again, as shards do.
    bool take(SqliteLedger& ledger, std::size_t number) {
        for (int attempt = 0; attempt < 1000; ++attempt)
            if (commit(ledger, script_.units[number]) == Outcome::committed) return true;
        return false;
    }

    const LedgerScript& script_;
    std::mt19937 random_;
    MemoryRows rows_;
    bool dies_ = false;
    bool is_dead_ = false;
};

}  // namespace

TEST_CASE("a row is read back as it was written, and damage is noticed") {
    using Type = ColumnValue::Type;
    const RowValues row = {{},
                           {Type::integer, 0, {}},
                           {Type::integer, -1, {}},
                           {Type::integer, std::numeric_limits<std::int64_t>::min(), {}},
                           {Type::integer, std::numeric_limits<std::int64_t>::max(), {}},
                           {Type::text, 0, ""},
                           {Type::text, 0, "ann"},
                           {Type::blob, 0, std::string_view("\0\xff", 2)}};
    const std::string encoded = encode_row(row);
    const auto decoded = decode_row(encoded);
    REQUIRE(decoded);
    REQUIRE(decoded->size() == row.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
        CHECK((*decoded)[i].type == row[i].type);
        CHECK((*decoded)[i].integer == row[i].integer);
        CHECK((*decoded)[i].bytes == row[i].bytes);
    }
    CHECK_FALSE(decode_row(""));
    CHECK_FALSE(decode_row("\x02"));
    CHECK_FALSE(decode_row(std::string_view(encoded).substr(0, encoded.size() - 1)));
}

TEST_CASE("the columns of a key can't be confused") {
    using Type = ColumnValue::Type;
    const auto field = [](std::string_view a, std::string_view b) {
        const RowValues row = {{Type::text, 0, a}, {Type::text, 0, b}};
        return field_of(row, std::array{0, 1});
    };
    CHECK(field("room/1", "ann") == "6 room/1 ann");
    CHECK(field("a", "b c") != field("a b", "c"));
    CHECK(field("", "1 a") != field("1 a", ""));
    const RowValues owned = {{Type::integer, 7, {}}, {Type::text, 0, "a/#"}};
    CHECK(field_of(owned, std::array{0, 1}) == "7 a/#");
}

TEST_CASE("each partition has the rows of its users, and of a message those of its receivers") {
    REQUIRE(partition_of(user_ann) != partition_of(user_bob));
    MemoryRows rows;
    SqliteLedger ledger(mirrored_in(rows));
    StoredState nothing;
    nothing.read(ledger);
    commit(ledger, {session(1, user_ann), session(2, user_bob), put(5, {1, 2}), put(6, {2}),
                    PutSubscription{.owner = 2, .filter = "a/#"}});
    CHECK(fields_of(rows, "owner", partition_of(user_ann)) == std::set<std::string>{"1"});
    CHECK(fields_of(rows, "message", partition_of(user_ann)) == std::set<std::string>{"5"});
    CHECK(fields_of(rows, "message", partition_of(user_bob)) == std::set<std::string>{"5", "6"});
    CHECK(fields_of(rows, "subscription", partition_of(user_bob)) ==
          std::set<std::string>{"2 a/#"});
    commit(ledger, {Done{.owner = 1, .upto = 5}, EndOwner{2}});
    commit(ledger, {});  // deletes what nobody waits for
    for (const std::string& user : {user_ann, user_bob})
        CHECK(fields_of(rows, "message", partition_of(user)).empty());
    CHECK(fields_of(rows, "subscription", partition_of(user_bob)).empty());
}

TEST_CASE("rows of an owner that ended before a restart are deleted in its partition, too") {
    MemoryRows rows;
    {
        SqliteLedger ledger(mirrored_in(rows));
        StoredState nothing;
        nothing.read(ledger);
        commit(ledger, {session(1, user_ann), session(2, user_bob), put(5, {1, 2})});
        commit(ledger, {EndOwner{2}});
    }
    SqliteLedger ledger(mirrored_in(rows));
    StoredState nothing;
    nothing.read(ledger);
    commit(ledger, {Done{.owner = 1, .upto = 5}});
    commit(ledger, {});
    CHECK(fields_of(rows, "message", partition_of(user_bob)).empty());
    CHECK(fields_of(rows, "message", partition_of(user_ann)).empty());
}

TEST_CASE("a receiver's copy with a forgotten place is deleted everywhere") {
    const QuietLog quiet;
    OwnerPartitions owners;
    owners.add(1, 7);
    owners.ended(1);
    for (OwnerId owner = 2; owner < 100'002; ++owner) owners.ended(owner);
    CHECK_FALSE(owners.find(1));
    RowPlaces places(owners);
    const std::string receivers = encode_receivers(5, {{.owner = 1}});
    const MirroredTable table{.name = "message",
                              .partitioning = MirroredTable::Partitioning::receivers,
                              .column = 1,
                              .columns = 2};
    const RowValues row = {{ColumnValue::Type::integer, 5, {}},
                           {ColumnValue::Type::blob, 0, receivers}};
    std::size_t visited = 0;
    places.to_delete(table, row, [&](Partition, const std::string& before) {
        ++visited;
        CHECK(before.empty());
    });
    CHECK(visited == partitions);
}

TEST_CASE("an import has the messages that wait for later receivers only") {
    const QuietLog quiet;
    const TemporaryFolder folder;
    {
        SqliteLedger ledger({.folder = folder.path("data")});
        StoredState nothing;
        nothing.read(ledger);
        commit(ledger, {session(1, user_ann), session(2, user_bob), put(5, {1}),
                        PutReceiver{.stamp = 5, .receiver = {.owner = 2}}});
        commit(ledger, {EndOwner{1}});
    }
    MemoryRows rows;
    import_folder(folder.path("data"), rows);
    {
        SqliteLedger ledger(mirrored_in(rows));
        StoredState state;
        state.read(ledger);
        CHECK(state.waits(2, 5));
        commit(ledger, {Done{.owner = 2, .upto = 5}});
        commit(ledger, {});  // deletes what nobody waits for
    }
    for (Partition partition = 0; partition < partitions; ++partition)
        CHECK(fields_of(rows, "message", partition).empty());
}

TEST_CASE("committed units are in the rows, after any answers and a crash at any step") {
    const QuietLog quiet;
    const LedgerScript written = written_script();
    constexpr std::uint32_t seeds = sanitized ? 20 : 60;
    for (std::uint32_t seed = 1; seed <= seeds; ++seed) {
        INFO("written script, seed " << seed);
        REQUIRE(MirroredLife(written, seed).live() == "");
    }
    for (std::uint32_t seed = 1; seed <= seeds; ++seed) {
        const LedgerScript script = random_script(seed, 60);
        INFO("random script, seed " << seed);
        REQUIRE(MirroredLife(script, seed).live() == "");
    }
}

TEST_CASE("rows of a write without an answer are put back with the next write") {
    const QuietLog quiet;
    MemoryRows rows;
    SqliteLedger ledger(mirrored_in(rows));
    StoredState nothing;
    nothing.read(ledger);
    commit(ledger, {session(1, user_ann)});
    const auto before = fields_of(rows, "delayed", partition_of(user_ann));
    rows.judge_by([](const auto&, bool) { return WriteFate{Answer::away, true}; });
    CHECK(commit(ledger, {delayed(1000, "name")}) == Outcome::refused);
    CHECK(ledger.refusing());
    CHECK(ledger.trouble() == "Redis fails: the test says so");
    CHECK(fields_of(rows, "delayed", partition_of(user_ann)).size() == 1);
    rows.judge_by({});
    while (commit(ledger, {}) != Outcome::committed) {
    }
    CHECK(fields_of(rows, "delayed", partition_of(user_ann)) == before);
}

TEST_CASE("the log of events is the same after a first write without an answer") {
    const QuietLog quiet;
    MemoryRows rows;
    auto options = mirrored_in(rows);
    options.events.webhook_kinds = 1;
    Ledger::Visitor nobody;
    std::uint64_t log = 0;
    {
        SqliteLedger ledger(options);
        ledger.load(nobody);
        log = ledger.events().log;
        bool is_first = true;
        rows.judge_by([&](const auto&, bool) {
            return std::exchange(is_first, false) ? WriteFate{Answer::away, true} : WriteFate{};
        });
        while (commit(ledger, {PutEvent{.body = "{}"}}) != Outcome::committed) {
        }
        rows.judge_by({});
    }
    SqliteLedger ledger(options);
    ledger.load(nobody);
    CHECK(ledger.events().log == log);
    CHECK(ledger.events().delivered == 0);
    CHECK(ledger.events().waiting > 0);
}

TEST_CASE("a row that may be anywhere is not deleted when other rows are put back") {
    const QuietLog quiet;
    constexpr std::size_t receivers = 3;  // the column
    MemoryRows rows;
    {
        SqliteLedger ledger(mirrored_in(rows));
        StoredState nothing;
        nothing.read(ledger);
        commit(ledger, {session(1, user_ann), put(5, {1})});
    }
    const RowKey key{.partition = partition_of(user_ann), .table = "message", .field = "5"};
    const std::string stored = rows.rows().at(key);
    RowValues row = decode_row(stored).value();
    row[receivers].bytes = "damaged";
    rows.put(key, encode_row(row));

    Mirror mirror(rows);
    const OpenStore store = open_mirrored(mirror, 0ms);
    Database& database = *store.database;
    rows.judge_by([](const auto&, bool) { return WriteFate{Answer::away, false}; });
    database.run("BEGIN; DELETE FROM message");
    mirror.write();
    REQUIRE_FALSE(database.ok());
    database.clear_error();
    database.roll_back();
    mirror.rolled_back();

    rows.judge_by({});
    database.run("BEGIN; INSERT INTO meta VALUES('later', 1)");
    mirror.write();
    REQUIRE(database.ok());
    CHECK(rows.rows().contains(key));
}

TEST_CASE("a full store takes what was promised, refuses what is new, and heals") {
    const QuietLog quiet;
    MemoryRows rows;
    SqliteLedger ledger(mirrored_in(rows));
    StoredState nothing;
    nothing.read(ledger);
    commit(ledger, {session(1, user_ann), put(5, {1})});
    rows.judge_by([](const auto&, bool may_overfill) {
        return may_overfill ? WriteFate{} : WriteFate{Answer::full, false};
    });
    CHECK(commit(ledger, {put(6, {1})}) == Outcome::committed);
    CHECK(ledger.refusing());
    CHECK(ledger.trouble() == "the test says so");
    CHECK(commit(ledger, {Done{.owner = 1, .upto = 5}}) == Outcome::committed);
    rows.judge_by({});
    CHECK(commit(ledger, {}) == Outcome::committed);
    CHECK_FALSE(ledger.refusing());
    CHECK(ledger.trouble() == "");
}

TEST_CASE("a full store takes no more than a bounded rest") {
    const QuietLog quiet;
    MemoryRows rows;
    SqliteLedger ledger(mirrored_in(rows));
    StoredState nothing;
    nothing.read(ledger);
    commit(ledger, {session(1, user_ann)});
    rows.judge_by([](const auto&, bool may_overfill) {
        return may_overfill ? WriteFate{} : WriteFate{Answer::full, false};
    });
    const std::string megabyte(1024 * 1024, 'x');
    Stamp stamp = 10;
    while (commit(ledger, {put(stamp, {1}, megabyte)}) == Outcome::committed) REQUIRE(++stamp < 40);
    CHECK(stamp > 20);
    rows.judge_by({});
    while (commit(ledger, {}) != Outcome::committed) {
    }
    CHECK_FALSE(ledger.refusing());
}

TEST_CASE("a node that is fenced writes nothing more and says so") {
    const QuietLog quiet;
    MemoryRows rows;
    std::promise<void> failed;
    auto options = mirrored_in(rows);
    options.failed = [&] { failed.set_value(); };
    SqliteLedger ledger(options);
    StoredState nothing;
    nothing.read(ledger);
    rows.judge_by([](const auto&, bool) { return WriteFate{Answer::fenced, false}; });
    CHECK(commit(ledger, {session(1, user_ann)}) == Outcome::refused);
    failed.get_future().wait();
    const auto writes = rows.writes();
    CHECK(commit(ledger, {session(2, user_bob)}) == Outcome::refused);
    CHECK(rows.writes() == writes);
    CHECK(ledger.refusing());
}

TEST_CASE("a start looks after its rows while it loads, for a node must beat meanwhile") {
    constexpr Stamp messages = 20'000;
    const QuietLog quiet;
    MemoryRows rows;
    {
        SqliteLedger ledger(mirrored_in(rows));
        StoredState nothing;
        nothing.read(ledger);
        std::vector<Operation> operations{session(1, user_ann)};
        for (Stamp stamp = 1; stamp <= messages; ++stamp) operations.push_back(put(stamp, {1}));
        commit(ledger, std::move(operations));
    }
    SqliteLedger ledger(mirrored_in(rows));
    const std::size_t before = rows.looks();
    StoredState state;
    state.read(ledger);
    CHECK(rows.looks() >= before + messages / 1000);
}

TEST_CASE("a start repeats its first writes until they are answered") {
    const QuietLog quiet;
    MemoryRows rows;
    std::size_t attempts = 0;
    rows.judge_by([&](const auto&, bool) {
        return ++attempts % 2 == 0 ? WriteFate{} : WriteFate{Answer::away, attempts % 3 == 0};
    });
    auto options = mirrored_in(rows);
    options.events.webhook_kinds = 1;
    options.patience = 1min;
    {
        SqliteLedger ledger(options);
        CHECK(attempts >= 2);
        rows.judge_by({});
        Ledger::Visitor nobody;
        ledger.load(nobody);
        CHECK(commit(ledger, {session(1, user_ann)}) == Outcome::committed);
    }
    CHECK(found_in(rows).find(user_ann) != std::string::npos);

    rows.judge_by([](const auto&, bool) { return WriteFate{Answer::away, false}; });
    CHECK_THROWS_AS(SqliteLedger(mirrored_in(rows)), std::runtime_error);
    std::size_t fenced = 0;
    rows.judge_by([&](const auto&, bool) {
        ++fenced;
        return WriteFate{Answer::fenced, false};
    });
    CHECK_THROWS_AS(SqliteLedger{options}, std::runtime_error);
    CHECK(fenced == 1);
}

TEST_CASE("all rows are written anew into a store that was emptied") {
    const QuietLog quiet;
    MemoryRows rows;
    SqliteLedger ledger(mirrored_in(rows));
    StoredState nothing;
    nothing.read(ledger);
    commit(ledger,
           {session(1, user_ann), session(2, user_bob), put(5, {1, 2}), delayed(1000, "name"),
            PutRetained{.stamp = 6, .message = message("topic", "retained")}});
    const auto before = rows.rows();
    rows.empty();
    CHECK(commit(ledger, {}) == Outcome::committed);
    while (commit(ledger, {put(7, {1})}) != Outcome::committed) {
    }
    const auto after = rows.rows();
    for (const auto& [key, value] : before)
        if (key.table != "meta") CHECK(after.contains(key));
    CHECK(after.size() == before.size() + 1);
}

TEST_CASE("a row that a later version has written stops the start") {
    MemoryRows rows;
    const auto complaint = [&] {
        try {
            SqliteLedger ledger(mirrored_in(rows));
        } catch (const std::runtime_error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK(complaint() == "");
    const RowKey key{.partition = 3, .table = "away", .field = "ann"};
    const RowValues row(9, {ColumnValue::Type::integer, 1, {}});
    rows.put(key, encode_row(row));
    CHECK(complaint() == "row 'ann' of table away in partition 3: a later version has written it");
    rows.put(key, "nonsense");
    CHECK(complaint() == "row 'ann' of table away in partition 3: it can't be read");
}
