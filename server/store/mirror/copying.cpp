#include "server/store/mirror/copying.h"

#include <utility>

namespace pulsegate {

namespace {

constexpr std::size_t bytes_at_a_time = 1024 * 1024;

}  // namespace

bool copy_rows(Database& database, const std::vector<MirroredTable>& tables, RowPlaces& places,
               const TakeRows& take) {
    std::vector<RowChange> rows;
    std::size_t bytes = 0;
    bool goes_on = true;
    for (const MirroredTable& table : tables) {
        each_row(database, table, [&](const RowValues& row) {
            const std::string field = field_of(row, table.key);
            places.to_put(table, row, [&](Partition partition, std::string value) {
                bytes += field.size() + value.size();
                rows.push_back({{partition, table.name, field}, std::move(value)});
            });
            if (bytes < bytes_at_a_time) return true;
            bytes = 0;
            return goes_on = take(std::exchange(rows, {}));
        });
        if (!goes_on || !database.ok()) return false;
    }
    return rows.empty() || take(rows);
}

RowKey unfinished_import() {
    return {.partition = global_partition, .table = "import", .field = "unfinished"};
}

}  // namespace pulsegate
