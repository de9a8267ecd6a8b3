#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/base/files/unique_fd.h"

namespace pulsegate {

/// The identity of a file, and its size.
struct FileState {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t links = 0;
    std::uint64_t size = 0;

    bool is_same_file(const FileState& other) const {
        return device == other.device && inode == other.inode;
    }
};

/// The files that the store has open. Somebody may delete, rename or cut them meanwhile; then the
/// next start will not find data that is written to them. It belongs to the ledger's thread.
class StoreFiles {
public:
    /// For a store in memory, without files.
    StoreFiles() = default;
    /// The lock, the database and its WAL, which must all exist.
    explicit StoreFiles(const std::string& folder);

    /// The faults of the files. Each text is "" if there is no such fault.
    struct Trouble {
        std::string cut;    ///< a file is shorter than before
        std::string moved;  ///< a name does not lead to the open file
    };

    /// Checks all files, with one system call for each if there is no fault.
    const Trouble& look();
    /// Checks the file that commits are written to.
    const Trouble& look_at_wal();
    /// The result of the last check.
    const Trouble& trouble() const { return trouble_; }

    /// Call it after the store itself may have cut them.
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
