#include "server/store/pages/tree_reader.h"

#include <algorithm>
#include <utility>

namespace pulsegate {

namespace {

constexpr std::size_t first_page_header = 100;
constexpr std::size_t largest_root_place = 52;  ///< not 0: there is a pointer map
constexpr std::size_t map_entry_size = 5;
constexpr int deepest_tree = 20;

constexpr std::uint8_t map_root = 1;
constexpr std::uint8_t map_child = 5;

constexpr std::uint8_t index_inner = 2;
constexpr std::uint8_t table_inner = 5;
constexpr std::uint8_t index_leaf = 10;
constexpr std::uint8_t table_leaf = 13;

std::string_view view_of(const DatabasePage& page) { return {page.data(), page.size()}; }

std::size_t number_at(std::string_view page, std::size_t place, std::size_t size) {
    return static_cast<std::size_t>(RecordReader(page.substr(place)).big_endian(size));
}

}  // namespace

TreeReader::TreeReader(const PageImage& image, bool is_mixed)
    : image_(image), is_mixed_(is_mixed), usable_(image.usable()), visited_(image.pages() + 1) {
    DatabasePage page;
    has_map_ = image_.has(1, page) && number_at(view_of(page), largest_root_place, 4) != 0;
    // If there is a pointer map, page 2 has it, and it begins with the entry of page 3, the root of
    // a table. No page of a tree begins with this byte.
    if (image_.has(2, page) && page[0] == map_root) has_map_ = true;
}

std::uint32_t TreeReader::header_number(std::size_t place) const {
    DatabasePage page;
    return image_.has(1, page) ? static_cast<std::uint32_t>(number_at(view_of(page), place, 4)) : 0;
}

void TreeReader::rows(std::uint32_t root, bool has_rowid, const Visit& visit) {
    unreadable_ = 0;
    walk(root, has_rowid, visit);
}

void TreeReader::orphans(std::uint32_t root, bool has_rowid, const Visit& visit) {
    unreadable_ = 0;
    if (!std::exchange(knows_orphans_, true)) find_orphans();
    auto each = std::ranges::lower_bound(orphans_, root, {}, &Link::from);
    for (; each != orphans_.end() && each->from == root; ++each)
        if (!visited_[each->page]) walk(each->page, has_rowid, visit);
}

void TreeReader::find_orphans() {
    if (!has_map_ || lost_.empty()) return;
    for (std::uint32_t number = 3; number <= image_.pages(); ++number) {
        if (visited_[number] || map_page(number) == number) continue;
        if (const auto root = root_of(number)) orphans_.push_back({number, *root});
    }
    std::ranges::stable_sort(orphans_, {}, &Link::from);
}

/// Follows the pointer map upwards. Returns the root if there is a lost page on the way.
std::optional<std::uint32_t> TreeReader::root_of(std::uint32_t orphan) const {
    bool is_lost = false;
    for (int depth = 0; depth < deepest_tree; ++depth) {
        const MapEntry entry = map_entry(orphan);
        if (entry.kind == map_root && is_lost) return orphan;
        if (entry.kind != map_child || entry.parent == 0 || entry.parent >= visited_.size())
            return std::nullopt;
        orphan = entry.parent;
        is_lost = is_lost || lost_.contains(orphan);
        if (!is_lost && visited_[orphan]) return std::nullopt;
    }
    return std::nullopt;
}

void TreeReader::walk(std::uint32_t root, bool has_rowid, const Visit& visit) {
    std::vector<Link> next{{root, 0}};
    while (!next.empty()) {
        const Link link = next.back();
        next.pop_back();
        if (read_page(link.page, link.from, has_rowid, visit, next)) continue;
        ++unreadable_;
        lost_.insert(link.page);
    }
}

bool TreeReader::read_page(std::uint32_t number, std::uint32_t parent, bool has_rowid,
                           const Visit& visit, std::vector<Link>& next) {
    if (number == 0 || number >= visited_.size() || visited_[number]) return false;
    if (is_mixed_ && parent != 0 && has_map_ && !is_child(number, parent)) return false;
    visited_[number] = true;
    DatabasePage bytes;
    const auto quality = image_.read(number, bytes);
    if (quality == PageImage::Quality::missing) return false;
    const bool is_sound = quality == PageImage::Quality::sound;
    const auto page = view_of(bytes).substr(0, usable_);
    const std::size_t begin = number == 1 ? first_page_header : 0;
    const auto type = static_cast<std::uint8_t>(page[begin]);
    const bool is_inner = type == (has_rowid ? table_inner : index_inner);
    if (!is_inner && type != (has_rowid ? table_leaf : index_leaf)) return false;
    const std::size_t cells = number_at(page, begin + 3, 2);
    const std::size_t pointers = begin + (is_inner ? 12 : 8);
    if (pointers + 2 * cells > page.size()) return false;
    const auto first_child = static_cast<std::ptrdiff_t>(next.size());
    const auto add_child = [&](std::size_t place) {
        const auto child = static_cast<std::uint32_t>(number_at(page, place, 4));
        if (is_sound || !has_map_ || is_child(child, number)) next.push_back({child, number});
    };
    // The pointer map finds the children that a damaged page no longer leads to.
    if (!is_sound) lost_.insert(number);
    for (std::size_t i = 0; i < cells; ++i) {
        const std::size_t cell = number_at(page, pointers + 2 * i, 2);
        if (cell < pointers + 2 * cells || cell + 4 > page.size()) {
            ++unreadable_;
            continue;
        }
        if (is_inner) add_child(cell);
        if (!is_inner || !has_rowid)
            read_row(page, cell + (is_inner ? 4 : 0), has_rowid, is_sound, visit);
    }
    if (is_inner) add_child(begin + 8);
    std::reverse(next.begin() + first_child, next.end());  // the first child is taken first
    return true;
}

void TreeReader::read_row(std::string_view page, std::size_t place, bool has_rowid, bool is_sound,
                          const Visit& visit) {
    RecordReader cell(page.substr(place));
    const std::uint64_t size = cell.varint();
    StoredRow row{.is_sound = is_sound};
    if (has_rowid) row.rowid = static_cast<std::int64_t>(cell.varint());
    const auto record = payload(cell, size, has_rowid, row.is_sound);
    auto values = record ? read_record(*record) : std::nullopt;
    if (!values) return void(++unreadable_);
    row.values = *std::move(values);
    visit(row);
}

std::optional<std::string> TreeReader::payload(RecordReader& cell, std::uint64_t size,
                                               bool has_rowid, bool& is_sound) const {
    if (cell.failed() || size > std::uint64_t{image_.pages()} * usable_) return std::nullopt;
    const std::size_t local = local_size(size, has_rowid);
    std::string payload(cell.take(local));
    if (cell.failed()) return std::nullopt;
    if (local == size) return payload;
    auto next = static_cast<std::uint32_t>(cell.big_endian(4));
    DatabasePage page;
    while (!cell.failed() && payload.size() < size) {
        const auto quality = image_.read(next, page);
        if (quality == PageImage::Quality::missing) return std::nullopt;
        if (quality == PageImage::Quality::damaged) is_sound = false;
        next = static_cast<std::uint32_t>(number_at(view_of(page), 0, 4));
        const std::size_t left = static_cast<std::size_t>(size) - payload.size();
        payload.append(page.data() + 4, std::min(left, usable_ - 4));
    }
    if (cell.failed()) return std::nullopt;
    return payload;
}

/// How much of a row lies in its tree's page; the rest overflows.
std::size_t TreeReader::local_size(std::uint64_t size, bool has_rowid) const {
    const std::size_t most = has_rowid ? usable_ - 35 : (usable_ - 12) * 64 / 255 - 23;
    if (size <= most) return static_cast<std::size_t>(size);
    const std::size_t least = (usable_ - 12) * 32 / 255 - 23;
    const std::size_t fitting = least + static_cast<std::size_t>((size - least) % (usable_ - 4));
    return fitting <= most ? fitting : least;
}

bool TreeReader::is_child(std::uint32_t number, std::uint32_t parent) const {
    const MapEntry entry = map_entry(number);
    return entry.kind == 0 || (entry.kind == map_child && entry.parent == parent);
}

std::uint32_t TreeReader::map_page(std::uint32_t number) const {
    const auto mapped = static_cast<std::uint32_t>(usable_ / map_entry_size) + 1;
    return (number - 2) / mapped * mapped + 2;
}

TreeReader::MapEntry TreeReader::map_entry(std::uint32_t number) const {
    const std::uint32_t map = number > 2 ? map_page(number) : number;
    if (map == number) return {};
    if (map != map_number_) {
        map_number_ = map;
        if (image_.read(map, map_) != PageImage::Quality::sound) map_.fill(0);
    }
    const std::size_t place = map_entry_size * (number - map - 1);
    return {static_cast<std::uint8_t>(map_[place]),
            static_cast<std::uint32_t>(number_at(view_of(map_), place + 1, 4))};
}

std::map<std::string, std::uint32_t> stored_table_roots(TreeReader& reader) {
    std::map<std::string, std::uint32_t> roots;
    reader.rows(1, true, [&](const StoredRow& row) {
        if (row.values.size() < 4) return;
        const auto* const kind = std::get_if<StoredText>(&row.values[0]);
        const auto* const name = std::get_if<StoredText>(&row.values[1]);
        const auto* const root = std::get_if<std::int64_t>(&row.values[3]);
        if (kind && name && root && kind->text == "table")
            roots[std::string(name->text)] = static_cast<std::uint32_t>(*root);
    });
    return roots;
}

}  // namespace pulsegate
