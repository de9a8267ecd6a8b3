#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "server/base/files/unique_fd.h"
#include "server/store/pages/wal_file.h"

namespace pulsegate {

using DatabasePage = std::array<char, database_page_size>;

/// The pages of a database, read without SQLite: for each page, the last version that was committed
/// to the write-ahead log, or else the version in the file. Some may be missing.
class PageImage {
public:
    /// `wal` must outlive it, and may be null.
    PageImage(const std::string& path, const WalFile* wal);

    /// The maximum number of pages.
    std::uint32_t pages() const { return pages_; }
    /// The bytes of a page that belong to SQLite; a checksum may follow.
    std::size_t usable() const { return usable_; }

    enum class Quality {
        missing,
        damaged,  ///< its checksum is wrong
        sound,    ///< no fault was found
    };
    /// Pages count from 1.
    Quality read(std::uint32_t number, DatabasePage& page) const;
    bool has(std::uint32_t number, DatabasePage& page) const {
        return read(number, page) != Quality::missing;
    }

private:
    Quality read_file(std::uint32_t number, DatabasePage& page) const;
    void find_frames();
    std::size_t find_usable() const;
    bool read_header(DatabasePage& page) const;

    UniqueFd file_;
    const WalFile* wal_;
    std::uint32_t pages_ = 0;
    std::size_t usable_ = database_page_size;
    std::unordered_map<std::uint32_t, std::size_t> frames_;
};

}  // namespace pulsegate
