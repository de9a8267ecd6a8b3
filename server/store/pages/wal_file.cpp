#include "server/store/pages/wal_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

namespace pulsegate {

namespace {

constexpr std::size_t wal_header_bytes = 32;
constexpr std::size_t wal_salt_place = 16;
constexpr std::size_t wal_sums_place = 24;
constexpr std::uint32_t wal_magic = 0x377f0682;  ///< + 1: checksums of big-endian words

constexpr std::size_t frame_header_bytes = 24;
constexpr std::size_t frame_bytes = frame_header_bytes + database_page_size;
constexpr std::size_t frame_salt_place = 8;
constexpr std::size_t frame_sums_place = 16;
/// Only this part of a frame's header is in its checksum.
constexpr std::size_t summed_header = 8;

constexpr std::size_t salt_size = 8;

std::uint32_t big_endian(const char* bytes) {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
}

void put_big_endian(char* bytes, std::uint32_t value) {
    for (int i = 0; i < 4; ++i) bytes[i] = static_cast<char>(value >> (24 - 8 * i));
}

constexpr std::size_t offset_of(std::size_t frame) {
    return wal_header_bytes + frame * frame_bytes;
}

bool read_at(const UniqueFd& file, char* bytes, std::size_t size, std::size_t offset) {
    return ::pread(file.get(), bytes, size, static_cast<off_t>(offset)) ==
           static_cast<ssize_t>(size);
}

bool write_all(const UniqueFd& file, const char* bytes, std::size_t size) {
    return ::write(file.get(), bytes, size) == static_cast<ssize_t>(size);
}

}  // namespace

WalFile::WalFile(const std::string& path)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) {
    struct stat about {};
    if (!file_ || ::fstat(file_.get(), &about) != 0) return;
    size_ = static_cast<std::size_t>(about.st_size);
    if (is_empty()) return;
    read_header();
    read_frames();
}

bool WalFile::is_empty() const { return size_ < offset_of(1); }

std::uint32_t WalFile::word(const char* bytes) const {
    const std::uint32_t value = big_endian(bytes);
    return is_big_endian_ ? value : __builtin_bswap32(value);
}

WalFile::Sums WalFile::add(Sums sums, const char* bytes, std::size_t size) const {
    for (std::size_t i = 0; i < size; i += 8) {
        sums.first += word(bytes + i) + sums.second;
        sums.second += word(bytes + i + 4) + sums.first;
    }
    return sums;
}

WalFile::Sums WalFile::sums_of_frame(Sums before, const char* bytes) const {
    return add(add(before, bytes, summed_header), bytes + frame_header_bytes, database_page_size);
}

WalFile::Sums WalFile::sums_at(const char* bytes) {
    return {big_endian(bytes), big_endian(bytes + 4)};
}

void WalFile::put_sums(char* bytes, Sums sums) {
    put_big_endian(bytes, sums.first);
    put_big_endian(bytes + 4, sums.second);
}

bool WalFile::differ_in_one_bit(Sums a, Sums b) {
    return std::popcount(a.first ^ b.first) + std::popcount(a.second ^ b.second) == 1;
}

void WalFile::read_header() {
    header_.resize(wal_header_bytes);
    if (!read_at(file_, header_.data(), header_.size(), 0)) return;
    const std::uint32_t magic = big_endian(header_.data());
    const Sums stored = sums_at(&header_[wal_sums_place]);
    is_big_endian_ = magic == wal_magic + 1;
    begin_ = add({}, header_.data(), wal_sums_place);
    is_header_good_ = begin_ == stored && (magic & ~1u) == wal_magic;
    salt_ = header_.substr(wal_salt_place, salt_size);
    if (is_header_good_) return;
    is_big_endian_ = std::endian::native == std::endian::big;  // as SQLite writes it
    begin_ = stored;
}

void WalFile::read_frames() {
    std::array<char, frame_bytes> bytes{};
    Sums before = begin_;
    bool is_sound = is_header_good_;
    std::size_t last_commit = 0;
    for (std::size_t i = 0; offset_of(i + 1) <= size_; ++i) {
        if (!read_at(file_, bytes.data(), bytes.size(), offset_of(i))) break;
        if (i == 0 && !is_header_good_) before = take_beginning(bytes.data());
        const bool is_ours = std::memcmp(&bytes[frame_salt_place], salt_.data(), salt_size) == 0;
        frames_.push_back(judge(bytes.data(), is_ours, before));
        const WalFrame& frame = frames_.back();
        is_sound = is_sound && is_ours && frame.is_good && !frame.repair;
        if (!frame.is_good || frame.pages_after == 0) continue;
        last_commit = frames_.size();
        if (is_sound) found_by_sqlite_ = last_commit;
    }
    frames_.resize(last_commit);
}

/// Reads a log with a damaged header. The first frame shows the salt, and whether the checksum is
/// the wrong part of the header.
WalFile::Sums WalFile::take_beginning(const char* bytes) {
    salt_.assign(bytes + frame_salt_place, salt_size);
    const Sums computed = add({}, header_.data(), wal_sums_place);
    if (sums_of_frame(computed, bytes) == sums_at(bytes + frame_sums_place)) begin_ = computed;
    return begin_;
}

/// `before` is the checksum of the previous frame, and is set to the checksum of this frame. Frames
/// of an earlier log continue each other's checksums too, but do not continue those of this log. A
/// different salt alone may be caused by a flipped bit.
WalFrame WalFile::judge(char* bytes, bool is_ours, Sums& before) const {
    const Sums stored = sums_at(bytes + frame_sums_place);
    const bool follows = is_ours || frames_.empty() || frames_.back().page != 0;
    const bool is_before_known = frames_.empty() || frames_.back().is_good;
    WalFrame frame{.is_good = follows && sums_of_frame(before, bytes) == stored};
    if (!frame.is_good && is_ours && is_before_known) {
        frame.repair = find_flip(bytes, before);
        frame.is_good = frame.repair.has_value();
        if (frame.repair)
            bytes[frame.repair->place] = static_cast<char>(
                static_cast<unsigned char>(bytes[frame.repair->place]) ^ frame.repair->mask);
    }
    before = frame.is_good ? sums_of_frame(before, bytes) : stored;
    if (!frame.is_good && !is_ours)
        return frame;  // it is left from an earlier log, or no frame at all
    frame.page = big_endian(bytes);
    frame.pages_after = big_endian(bytes + 4);
    return frame;
}

/// Finds the flipped bit, if exactly one explains the difference. The checksum is linear: a bit
/// changes it by the bit's weight times a factor that depends only on its place.
std::optional<WalFrame::Flip> WalFile::find_flip(const char* bytes, Sums before) const {
    const Sums stored = sums_at(bytes + frame_sums_place);
    const Sums computed = sums_of_frame(before, bytes);
    const Sums off{stored.first - computed.first, stored.second - computed.second};
    Sums first{1, 1};  // change of the sums if the first word of a pair grows by one
    Sums second{0, 1};
    std::vector<WalFrame::Flip> found;
    if (differ_in_one_bit(stored, computed)) found.push_back({frame_sums_place, 0});
    constexpr std::size_t left_out = frame_header_bytes - summed_header;
    for (std::size_t end = summed_header + database_page_size; end > 0; end -= 8) {
        const std::size_t pair = end > summed_header ? end - 8 + left_out : end - 8;
        for (unsigned bit = 0; bit < 32; ++bit) {
            if (explains(off, first, bytes + pair, bit)) found.push_back(flip_at(pair, bit));
            if (explains(off, second, bytes + pair + 4, bit))
                found.push_back(flip_at(pair + 4, bit));
        }
        first = {first.first + first.second, first.first + 2 * first.second};
        second = {second.first + second.second, second.first + 2 * second.second};
    }
    if (found.size() != 1) return std::nullopt;
    return found[0];
}

bool WalFile::explains(Sums off, Sums factor, const char* bytes, unsigned bit) const {
    const std::uint32_t weight = 1u << bit;
    const std::uint32_t change = (word(bytes) & weight) != 0 ? 0u - weight : weight;
    return off == Sums{factor.first * change, factor.second * change};
}

WalFrame::Flip WalFile::flip_at(std::size_t place, unsigned bit) const {
    const unsigned byte = is_big_endian_ ? 3 - bit / 8 : bit / 8;
    return {static_cast<std::uint16_t>(place + byte), static_cast<std::uint8_t>(1u << bit % 8)};
}

bool WalFile::may_be_torn() const {
    if (!is_damaged() || !is_header_good_ || repaired() > 0) return false;
    const auto lost = frames_.begin() + static_cast<std::ptrdiff_t>(found_by_sqlite_);
    return std::count_if(lost, frames_.end(),
                         [](const WalFrame& frame) { return frame.pages_after != 0; }) == 1;
}

std::size_t WalFile::repaired() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        frames_, [](const WalFrame& frame) { return frame.repair.has_value(); }));
}

std::set<std::uint32_t> WalFile::missing_pages() const {
    std::set<std::uint32_t> missing;
    for (const WalFrame& frame : frames_)
        if (frame.is_good)
            missing.erase(frame.page);
        else
            missing.insert(frame.page);
    return missing;
}

bool WalFile::read(std::size_t frame, char* page) const {
    std::array<char, frame_bytes> bytes{};
    if (!read_at(file_, bytes.data(), bytes.size(), offset_of(frame))) return false;
    if (const auto& repair = frames_[frame].repair)
        bytes[repair->place] =
            static_cast<char>(static_cast<unsigned char>(bytes[repair->place]) ^ repair->mask);
    std::memcpy(page, &bytes[frame_header_bytes], database_page_size);
    return true;
}

std::string WalFile::write_good(const std::string& path,
                                const std::set<std::uint32_t>& without) const {
    const auto trouble = [&] {
        return fmt::format("can't write {}: {}", path, std::strerror(errno));
    };
    const UniqueFd out(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640));
    if (!out) return trouble();
    std::array<char, wal_header_bytes> header{};
    put_big_endian(header.data(), wal_magic + (is_big_endian_ ? 1 : 0));
    put_big_endian(&header[4], 3007000);  // the format's version
    put_big_endian(&header[8], database_page_size);
    std::memcpy(&header[12], &header_[12], 4);  // how many logs there were
    std::memcpy(&header[wal_salt_place], salt_.data(), salt_size);
    Sums sums = add({}, header.data(), wal_sums_place);
    put_sums(&header[wal_sums_place], sums);
    if (!write_all(out, header.data(), header.size())) return trouble();
    std::array<char, frame_bytes> bytes{};
    for (std::size_t i = 0; i < frames_.size(); ++i) {
        const WalFrame& frame = frames_[i];
        if (!frame.is_good || without.contains(frame.page)) continue;
        if (!read(i, &bytes[frame_header_bytes])) return trouble();
        put_big_endian(bytes.data(), frame.page);
        put_big_endian(&bytes[4], frame.pages_after);
        std::memcpy(&bytes[frame_salt_place], salt_.data(), salt_size);
        sums = sums_of_frame(sums, bytes.data());
        put_sums(&bytes[frame_sums_place], sums);
        if (!write_all(out, bytes.data(), bytes.size())) return trouble();
    }
    return ::fsync(out.get()) == 0 ? "" : trouble();
}

}  // namespace pulsegate
