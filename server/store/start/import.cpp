#include "server/store/start/import.h"

#include <filesystem>
#include <stdexcept>
#include <utility>
#include <vector>

#include "server/store/files/folder_lock.h"
#include "server/store/mirror/copying.h"
#include "server/store/start/opening.h"

namespace pulsegate {

namespace {

void check(const RowStore::Result& result) {
    if (result.answer != RowStore::Answer::done) throw std::runtime_error(result.why);
}

void check_empty(RowStore& rows) {
    rows.read_rows([](const RowKey& key, std::string_view) {
        if (key != unfinished_import())
            throw std::runtime_error(
                "the cluster has data already; to replace it, empty the database of Redis "
                "(FLUSHDB)");
    });
}

}  // namespace

std::size_t import_folder(const std::string& folder, RowStore& rows) {
    if (!std::filesystem::exists(folder + "/pulsegate.db"))
        throw std::runtime_error("there is no pulsegate.db in " + folder);
    const FolderLock lock(folder);
    check_empty(rows);
    const OpenStore store = open_store(folder, Fsync::always, nullptr);
    check(rows.write({{unfinished_import(), "1"}}, false));
    OwnerPartitions owners;
    RowPlaces places(owners);
    std::size_t count = 0;
    copy_rows(*store.database, mirrored_tables(*store.database), places,
              [&](const std::vector<RowChange>& some) {
                  count += some.size();
                  check(rows.write(some, false));
                  return true;
              });
    if (!store.database->ok()) throw std::runtime_error(store.database->error_text());
    check(rows.write({{unfinished_import(), std::nullopt}}, false));
    return count;
}

}  // namespace pulsegate
