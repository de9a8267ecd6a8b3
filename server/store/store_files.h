#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "server/base/unique_fd.h"

namespace pulsegate {

/// The files that the store has open, which somebody may delete, rename or cut under it: what is
/// written to them then is not there for the next start. It belongs to the ledger's thread.
class StoreFiles {
public:
    /// In memory: there are none.
    StoreFiles() = default;
    /// The lock, the database and its WAL, which all are there.
    explicit StoreFiles(const std::string& folder);

    /// "" if each name still leads to the file that is open; else what is wrong. It makes two
    /// system calls for each file, which take a microsecond or two in all.
    std::string moved() const;

    /// "" if no file is shorter than it was; else what is wrong.
    std::string cut();
    /// The store itself may have cut them.
    void measure();

private:
    struct File {
        std::string path;
        UniqueFd open;  ///< without access to it, and so without effect on SQLite's locks
        off_t size = 0;
    };

    std::vector<File> files_;
};

}  // namespace pulsegate
