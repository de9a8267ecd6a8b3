#include "server/store/mirror/change_collector.h"

#include <utility>

namespace pulsegate {

namespace {

std::string_view bytes_in(sqlite3_value* value, const void* bytes) {
    const auto size = static_cast<std::size_t>(sqlite3_value_bytes(value));
    return bytes ? std::string_view(static_cast<const char*>(bytes), size) : std::string_view();
}

ColumnValue column_of(sqlite3_value* value) {
    switch (sqlite3_value_type(value)) {
        case SQLITE_INTEGER: return {ColumnValue::Type::integer, sqlite3_value_int64(value), {}};
        case SQLITE_TEXT:
            return {ColumnValue::Type::text, 0, bytes_in(value, sqlite3_value_text(value))};
        case SQLITE_BLOB:
            return {ColumnValue::Type::blob, 0, bytes_in(value, sqlite3_value_blob(value))};
        default: return {};
    }
}

template <class Get>
void read_columns(RowValues& row, int columns, Get get) {
    row.clear();
    for (int i = 0; i < columns; ++i) {
        sqlite3_value* value = nullptr;
        get(i, &value);
        row.push_back(value ? column_of(value) : ColumnValue());
    }
}

}  // namespace

ChangeCollector::ChangeCollector(Database& database, OwnerPartitions& owners)
    : owners_(owners), places_(owners), tables_(mirrored_tables(database)) {
    for (const MirroredTable& table : tables_) by_name_.emplace(table.name, &table);
    sqlite3_preupdate_hook(database.handle(), changed, this);
}

void ChangeCollector::changed(void* self, sqlite3* handle, int operation, const char*,
                              const char* table, sqlite3_int64, sqlite3_int64) {
    auto& collector = *static_cast<ChangeCollector*>(self);
    const auto found = collector.by_name_.find(table);
    if (found != collector.by_name_.end()) collector.note(handle, operation, *found->second);
}

void ChangeCollector::note(sqlite3* handle, int operation, const MirroredTable& table) {
    if (operation != SQLITE_INSERT) {
        read_columns(row_, table.columns, [&](int column, sqlite3_value** value) {
            sqlite3_preupdate_old(handle, column, value);
        });
        note_before(table, row_);
    }
    if (operation != SQLITE_DELETE) {
        read_columns(row_, table.columns, [&](int column, sqlite3_value** value) {
            sqlite3_preupdate_new(handle, column, value);
        });
        note_after(table, row_);
    } else if (table.partitioning == MirroredTable::Partitioning::owner) {
        ended_.push_back(static_cast<OwnerId>(row_.front().integer));
    }
}

void ChangeCollector::note_before(const MirroredTable& table, const RowValues& row) {
    const std::string field = field_of(row, table.key);
    places_.to_delete(table, row, [&](Partition partition, std::string before) {
        const auto [change, is_first] = changes_.try_emplace({partition, table.name, field});
        if (is_first) change->second.is_unknown = before.empty();
        if (is_first && !before.empty()) change->second.before = std::move(before);
        change->second.after.reset();
    });
}

void ChangeCollector::note_after(const MirroredTable& table, const RowValues& row) {
    const std::string field = field_of(row, table.key);
    places_.to_put(table, row, [&](Partition partition, std::string after) {
        changes_[{partition, table.name, field}].after = std::move(after);
    });
}

void ChangeCollector::committed() {
    changes_.clear();
    for (const OwnerId owner : std::exchange(ended_, {})) owners_.ended(owner);
}

void ChangeCollector::rolled_back() {
    changes_.clear();
    ended_.clear();
}

}  // namespace pulsegate
