#include "server/store/database/database.h"

#include <utility>

#include "server/store/pages/page_checksum.h"

namespace pulsegate {

Database::Database(const std::string& path, const char* vfs) : files_(vfs) {
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    note(sqlite3_open_v2(path.c_str(), &handle_, flags, files_.vfs()));
    if (!ok()) return;
    sqlite3_extended_result_codes(handle_, 1);
    // Without this, closing a damaged database would write to it before anybody could copy it.
    sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    reserve_checksums();
    sqlite3_wal_hook(handle_, &Database::committed, this);  // it replaces automatic checkpoints
}

Database::~Database() { sqlite3_close_v2(handle_); }

void Database::reserve_checksums() {
    int room = page_checksum_size;
    sqlite3_file_control(handle_, "main", SQLITE_FCNTL_RESERVE_BYTES, &room);
}

int Database::committed(void* self, sqlite3*, const char*, int pages) {
    static_cast<Database*>(self)->wal_pages_ = pages;
    return SQLITE_OK;
}

bool Database::damaged() const {
    switch (error_ & 0xff) {
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB: return true;
        default:
            // A short read means that another program has truncated a file, for example the WAL.
            return error_ == SQLITE_IOERR_DATA || error_ == SQLITE_IOERR_CORRUPTFS ||
                   error_ == SQLITE_IOERR_SHORT_READ;
    }
}

void Database::clear_error() {
    error_ = SQLITE_OK;
    error_text_.clear();
}

void Database::note(int result) {
    if (!ok() || result == SQLITE_OK || result == SQLITE_ROW || result == SQLITE_DONE) return;
    error_ = handle_ ? sqlite3_extended_errcode(handle_) : result;
    if (error_ == SQLITE_OK) error_ = result;
    error_text_ = handle_ ? sqlite3_errmsg(handle_) : sqlite3_errstr(result);
}

void Database::fail(int code, std::string text) {
    if (!ok()) return;
    error_ = code;
    error_text_ = std::move(text);
}

void Database::run(const char* sql) {
    if (ok()) note(sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr));
}

void Database::roll_back() {
    if (sqlite3_get_autocommit(handle_) == 0)
        sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);
}

void Database::checkpoint(int mode) {
    if (!ok()) return;
    note(sqlite3_wal_checkpoint_v2(handle_, "main", mode, nullptr, nullptr));
    if (ok()) wal_pages_ = 0;
}

void Database::sync_wal() {
    sqlite3_file* wal = nullptr;
    note(sqlite3_file_control(handle_, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal));
    if (!ok() || !wal || !wal->pMethods) return;
    if (wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL) == SQLITE_OK) return;
    fail(SQLITE_IOERR_FSYNC, "the write-ahead log can't be synced");
}

std::string_view Row::view(int column) const {
    const void* bytes = sqlite3_column_blob(statement_, column);
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
    return bytes ? std::string_view(static_cast<const char*>(bytes), size) : std::string_view();
}

Statement::Statement(Database& database, const char* sql) : database_(database) {
    if (database_.ok())
        database_.note(sqlite3_prepare_v3(database_.handle(), sql, -1, SQLITE_PREPARE_PERSISTENT,
                                          &statement_, nullptr));
}

// The texts and bytes stay where they are until the statement has run.

void Statement::bind(int parameter, std::string_view text) {
    database_.note(sqlite3_bind_text64(statement_, parameter, text.data() ? text.data() : "",
                                       text.size(), SQLITE_STATIC, SQLITE_UTF8));
}

void Statement::bind(int parameter, const std::optional<std::string>& text) {
    if (text) return bind(parameter, *text);
    database_.note(sqlite3_bind_null(statement_, parameter));
}

void Statement::bind(int parameter, const Blob& blob) {
    if (!blob.bytes) return database_.note(sqlite3_bind_null(statement_, parameter));
    const char* bytes = blob.bytes->data() ? blob.bytes->data() : "";
    database_.note(
        sqlite3_bind_blob64(statement_, parameter, bytes, blob.bytes->size(), SQLITE_STATIC));
}

bool Statement::step() {
    if (!database_.ok()) return false;
    const int result = sqlite3_step(statement_);
    database_.note(result);
    return result == SQLITE_ROW;
}

int Statement::finish() {
    const int changed = database_.ok() ? sqlite3_changes(database_.handle()) : 0;
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
    return changed;
}

}  // namespace pulsegate
