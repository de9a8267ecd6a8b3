#include "server/store/mirror/mirrored_table.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "server/store/database/schema.h"

namespace pulsegate {

namespace {

using Place = MirroredTable::Place;

struct Rule {
    std::string_view table;
    Place place;
    std::string_view column;
};
constexpr Rule rules[] = {
    {"meta", Place::everywhere, "key"},
    {"owner", Place::owner, "user"},
    {"cursor", Place::of_owner, "owner"},
    {"subscription", Place::of_owner, "owner"},
    {"absence", Place::of_owner, "owner"},
    {"incoming", Place::of_owner, "owner"},
    {"exchange", Place::of_owner, "owner"},
    {"will", Place::of_owner, "owner"},
    {"message", Place::receivers, "receivers"},
    {"receiver", Place::of_owner, "owner"},
    {"retained", Place::name, "topic"},
    {"delayed", Place::name, "user"},
    {"user", Place::name, "name"},
    {"ban", Place::everywhere, "user"},
    {"revocation", Place::name, "user"},
    {"member", Place::name, "user"},
    {"away", Place::name, "user"},
    {"event", Place::everywhere, "number"},
    {"dead_letter", Place::everywhere, "number"},
};

const Rule& rule_of(std::string_view table) {
    const auto rule = std::ranges::find(rules, table, &Rule::table);
    if (rule == std::end(rules))
        throw std::logic_error("no partition is known for table " + std::string(table));
    return *rule;
}

MirroredTable describe(Database& database, const std::string& name) {
    const Rule& rule = rule_of(name);
    MirroredTable table{.name = name, .place = rule.place};
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
