#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/base/files/unique_fd.h"

namespace pulsegate {

/// Which file it is, and its size.
struct FileState {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t links = 0;
    std::uint64_t size = 0;

    bool is_same_file(const FileState& other) const {
        return device == other.device && inode == other.inode;
    }
};

/// The files that the store has open, which somebody may delete, rename or cut under it: what is
/// written to them then is not there for the next start. It belongs to the ledger's thread.
class StoreFiles {
public:
    /// In memory: there are none.
    StoreFiles() = default;
    /// The lock, the database and its WAL, which all are there.
    explicit StoreFiles(const std::string& folder);

    /// What is wrong with the files. Each text is "" if it is nothing.
    struct Trouble {
        std::string cut;    ///< a file is shorter than it was
        std::string moved;  ///< a name does not lead to the file that is open
    };

    /// Looks at all files: one system call for each, if all is well.
    const Trouble& look();
    /// Looks at the file that commits are written to.
    const Trouble& look_at_wal();
    /// What the last look has found.
    const Trouble& trouble() const { return trouble_; }

    /// The store itself may have cut them.
    void measure();

private:
    struct File {
        std::string path;
        UniqueFd open;  ///< without access to it, and so without effect on SQLite's locks
        FileState state;
    };

    void look_at(File& file);

    std::vector<File> files_;  ///< the WAL is the last one
    Trouble trouble_;
};

}  // namespace pulsegate
