#include "server/store/mirror/filling.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "server/base/log.h"
#include "server/store/mirror/copying.h"
#include "server/store/mirror/mirrored_row.h"
#include "server/store/mirror/mirrored_table.h"
#include "server/store/rows/row_codec.h"

namespace pulsegate {

namespace {

/// Adds all rows in one pass.
class Filling {
public:
    Filling(Database& database, OwnerPartitions& owners)
        : database_(database),
          owners_(owners),
          tables_(mirrored_tables(database)),
          find_receivers_(database, "SELECT receivers FROM message WHERE stamp = ?"),
          set_receivers_(database, "UPDATE message SET receivers = ? WHERE stamp = ?") {}

    void add(const RowKey& key, std::string_view value) {
        if (key == unfinished_import())
            throw std::runtime_error(
                "an import was not finished, so rows are missing; empty the database of Redis "
                "(FLUSHDB) and import again");
        const auto table = std::ranges::find(tables_, key.table, &MirroredTable::name);
        if (table == tables_.end()) return refuse(key, "this version does not know its table");
        const auto row = decode_row(value);
        if (!row || row->empty()) return refuse(key, "it can't be read");
        if (std::ssize(*row) > table->columns) return refuse(key, "a later version has written it");
        if (table->partitioning == MirroredTable::Partitioning::owner)
            owners_.add(static_cast<OwnerId>(row->front().integer), key.partition);
        const bool is_new = insert(*table, *row);
        if (table->partitioning != MirroredTable::Partitioning::receivers) return;
        const auto column = static_cast<std::size_t>(table->column);
        note_receivers(*row, column, key.partition);
        if (!is_new) add_receivers(*row, column);
    }

private:
    [[noreturn]] static void refuse(const RowKey& key, std::string_view why) {
        throw std::runtime_error(fmt::format("row {} of table {} in partition {}: {}",
                                             in_quotes(key.field), key.table, key.partition, why));
    }

    /// Inserts a row. Columns that an older version did not write get their defaults. Returns false
    /// if the row exists already.
    bool insert(const MirroredTable& table, const RowValues& row) {
        auto& statement = inserts_[{&table, row.size()}];
        if (!statement)
            statement =
                std::make_unique<Statement>(database_, insertion(table, row.size()).c_str());
        const auto choose = [&](int column, auto bind) {
            const ColumnValue& value = row[static_cast<std::size_t>(column)];
            switch (value.type) {
                case ColumnValue::Type::null: return bind(Blob{});
                case ColumnValue::Type::integer: return bind(value.integer);
                case ColumnValue::Type::text: return bind(value.bytes);
                case ColumnValue::Type::blob: return bind(Blob{value.bytes});
            }
        };
        return statement->run_chosen(static_cast<int>(row.size()), choose) > 0;
    }

    std::string insertion(const MirroredTable& table, std::size_t columns) {
        std::string names;
        std::string places;
        Statement(database_, "SELECT name FROM pragma_table_info(?) WHERE cid < ?")
            .each(
                [&](const Row& row) {
                    const char* const comma = names.empty() ? "" : ", ";
                    names += comma + row.text(0);
                    places += std::string(comma) + "?";
                },
                table.name, columns);
        return fmt::format("INSERT OR IGNORE INTO {}({}) VALUES({})", table.name, names, places);
    }

    /// Notes the partition of the receivers, because an owner that has ended has no row of its own.
    void note_receivers(const RowValues& row, std::size_t column, Partition partition) {
        const auto stamp = static_cast<Stamp>(row.front().integer);
        const auto receivers = decode_receivers(stamp, row[column].bytes);
        for (const Receiver& receiver : receivers.value_or(std::vector<Receiver>()))
            owners_.add(receiver.owner, partition);
    }

    /// The message is also in another partition, with receivers of that partition. Merges both
    /// lists.
    void add_receivers(const RowValues& row, std::size_t column) {
        const auto stamp = static_cast<Stamp>(row.front().integer);
        std::string stored;
        find_receivers_.each([&](const Row& found) { stored = found.text(0); }, stamp);
        auto here = decode_receivers(stamp, stored);
        auto more = decode_receivers(stamp, row[column].bytes);
        if (!here || !more) return;
        const std::string merged =
            encode_receivers(stamp, merge_receivers(std::move(*here), std::move(*more)));
        set_receivers_.run(Blob{merged}, stamp);
    }

    Database& database_;
    OwnerPartitions& owners_;
    const std::vector<MirroredTable> tables_;
    std::map<std::pair<const MirroredTable*, std::size_t>, std::unique_ptr<Statement>> inserts_;
    Statement find_receivers_;
    Statement set_receivers_;
};

}  // namespace

void fill_tables(Database& database, RowStore& rows, OwnerPartitions& owners) {
    database.run("BEGIN IMMEDIATE");
    {
        Filling filling(database, owners);
        rows.read_rows([&](const RowKey& key, std::string_view value) { filling.add(key, value); });
    }
    make_sums(database);
    database.run("COMMIT");
    if (!database.ok())
        throw std::runtime_error("the rows can't be taken over: " + database.error_text());
}

}  // namespace pulsegate
