#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/pages/page_image.h"
#include "server/store/pages/stored_row.h"

namespace pulsegate {

/// Reads all rows that the pages of a damaged database still have, in the order of the tables'
/// trees (sqlite.org/fileformat.html, 1.6). If a page can't be read, only its own rows are lost.
/// The pages below it are found with the pointer map, which names the parent of each page.
class TreeReader {
public:
    using Visit = std::function<void(const StoredRow&)>;

    /// `is_mixed`: some pages are older than others, so a page is a child only if the pointer map
    /// agrees.
    TreeReader(const PageImage& image, bool is_mixed);

    /// The first page's fields; 0 if it is not there.
    std::uint32_t header_number(std::size_t place) const;

    /// Visits the rows below a root. `has_rowid` says what kind of tree it is.
    void rows(std::uint32_t root, bool has_rowid, const Visit& visit);
    /// Visits the rows of pages that belong to the root but can no longer be reached from it. Call
    /// it after `rows` of all roots.
    void orphans(std::uint32_t root, bool has_rowid, const Visit& visit);

    /// The number of pages and rows that the last call could not read.
    std::size_t unreadable() const { return unreadable_; }

private:
    struct Link {
        std::uint32_t page;
        std::uint32_t from;  ///< its parent, or its root
    };
    struct MapEntry {
        std::uint8_t kind = 0;
        std::uint32_t parent = 0;
    };

    void find_orphans();
    std::optional<std::uint32_t> root_of(std::uint32_t orphan) const;
    void walk(std::uint32_t root, bool has_rowid, const Visit& visit);
    bool read_page(std::uint32_t number, std::uint32_t parent, bool has_rowid, const Visit& visit,
                   std::vector<Link>& next);
    void read_row(std::string_view page, std::size_t cell, bool has_rowid, bool is_sound,
                  const Visit& visit);
    std::optional<std::string> payload(RecordReader& cell, std::uint64_t size, bool has_rowid,
                                       bool& is_sound) const;
    std::size_t local_size(std::uint64_t size, bool has_rowid) const;
    bool is_child(std::uint32_t number, std::uint32_t parent) const;
    MapEntry map_entry(std::uint32_t number) const;
    std::uint32_t map_page(std::uint32_t number) const;

    const PageImage& image_;
    const bool is_mixed_;
    bool has_map_ = false;
    const std::size_t usable_;
    std::vector<bool> visited_;
    std::set<std::uint32_t> lost_;  ///< visited, and not readable
    std::size_t unreadable_ = 0;
    bool knows_orphans_ = false;
    std::vector<Link> orphans_;  ///< by root
    mutable std::uint32_t map_number_ = 0;
    mutable DatabasePage map_{};
};

/// The roots of tables by name, as far as the first page's table can be read.
std::map<std::string, std::uint32_t> stored_table_roots(TreeReader& reader);

}  // namespace pulsegate
