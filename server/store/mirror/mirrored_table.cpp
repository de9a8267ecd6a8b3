#include "server/store/mirror/mirrored_table.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "server/store/database/schema.h"

namespace pulsegate {

namespace {

using Partitioning = MirroredTable::Partitioning;

struct Rule {
    std::string_view table;
    Partitioning partitioning;
    std::string_view column;
};
constexpr Rule rules[] = {
    {"meta", Partitioning::everywhere, "key"},
    {"owner", Partitioning::owner, "user"},
    {"cursor", Partitioning::of_owner, "owner"},
    {"subscription", Partitioning::of_owner, "owner"},
    {"absence", Partitioning::of_owner, "owner"},
    {"incoming", Partitioning::of_owner, "owner"},
    {"exchange", Partitioning::of_owner, "owner"},
    {"will", Partitioning::of_owner, "owner"},
    {"message", Partitioning::receivers, "receivers"},
    {"receiver", Partitioning::of_owner, "owner"},
    {"retained", Partitioning::name, "topic"},
    {"delayed", Partitioning::name, "user"},
    {"user", Partitioning::name, "name"},
    {"ban", Partitioning::everywhere, "user"},
    {"revocation", Partitioning::name, "user"},
    {"member", Partitioning::name, "user"},
    {"away", Partitioning::name, "user"},
    {"event", Partitioning::everywhere, "number"},
    {"dead_letter", Partitioning::everywhere, "number"},
};

const Rule& rule_of(std::string_view table) {
    const auto rule = std::ranges::find(rules, table, &Rule::table);
    if (rule == std::end(rules))
        throw std::logic_error("no partition is known for table " + std::string(table));
    return *rule;
}

MirroredTable describe(Database& database, const std::string& name) {
    const Rule& rule = rule_of(name);
    MirroredTable table{.name = name, .partitioning = rule.partitioning};
    std::vector<std::pair<int, int>> key;  // place in the key, column
    Statement(database, "SELECT cid, name, pk FROM pragma_table_info(?)")
        .each(
            [&](const Row& row) {
                ++table.columns;
                if (row.view(1) == rule.column) table.column = row.as<int>(0);
                if (row.number(2) > 0) key.emplace_back(row.as<int>(2), row.as<int>(0));
            },
            name);
    std::ranges::sort(key);
    for (const auto& [place, column] : key) table.key.push_back(column);
    return table;
}

ColumnValue column_of(const Row& row, int column) {
    switch (row.type(column)) {
        case SQLITE_INTEGER: return {ColumnValue::Type::integer, row.number(column), {}};
        case SQLITE_TEXT: return {ColumnValue::Type::text, 0, row.view(column)};
        case SQLITE_BLOB: return {ColumnValue::Type::blob, 0, row.view(column)};
        default: return {};
    }
}

}  // namespace

std::vector<MirroredTable> mirrored_tables(Database& database) {
    std::vector<MirroredTable> found;
    for (const Table& table : tables) found.push_back(describe(database, table.name));
    return found;
}

void each_row(Database& database, const MirroredTable& table,
              const std::function<bool(const RowValues&)>& visit) {
    Statement(database, ("SELECT * FROM " + table.name).c_str()).each([&](const Row& found) {
        RowValues row;
        for (int column = 0; column < table.columns; ++column)
            row.push_back(column_of(found, column));
        return visit(row);
    });
}

void make_sums(Database& database) {
    database.run(
        "DELETE FROM delayed_sum;"
        "INSERT INTO delayed_sum SELECT user, count(*), sum(bytes) FROM delayed GROUP BY user");
}

}  // namespace pulsegate
