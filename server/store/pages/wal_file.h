#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/base/files/unique_fd.h"

namespace pulsegate {

inline constexpr std::size_t database_page_size = 4096;

/// A page as it was written to a write-ahead log.
struct WalFrame {
    /// A wrong bit, with its byte in the frame.
    struct Flip {
        std::uint16_t place;
        std::uint8_t mask;
    };
    std::uint32_t page = 0;         ///< 0: unknown
    std::uint32_t pages_after = 0;  ///< 0: its transaction continues with the next frame
    bool is_good = false;           ///< its checksum is right, possibly after a repair
    std::optional<Flip> repair{};
};

/// A write-ahead log (sqlite.org/fileformat.html, 4), read without SQLite, because SQLite treats
/// the first wrong frame as the end. A frame's checksum continues the checksum of the frame before.
/// So frames after a damaged one can be distinguished from frames that an earlier log has left in
/// the file. Most single flipped bits are found and repaired, because each changes the checksum in
/// a different way.
class WalFile {
public:
    explicit WalFile(const std::string& path);

    bool is_there() const { return static_cast<bool>(file_); }
    std::size_t size() const { return size_; }
    /// Is it too short for a frame?
    bool is_empty() const;

    /// The frames up to the last good commit.
    const std::vector<WalFrame>& frames() const { return frames_; }
    /// The number of frames that SQLite would find.
    std::size_t found_by_sqlite() const { return found_by_sqlite_; }
    bool is_damaged() const { return found_by_sqlite_ < frames_.size(); }
    /// Do the frames that SQLite would not find form one transaction? Then a power cut before its
    /// sync may be the cause.
    bool may_be_torn() const;
    std::size_t repaired() const;
    /// The pages with a bad last frame. 0 stands for a bad frame of an unknown page.
    std::set<std::uint32_t> missing_pages() const;

    /// Reads the page of a frame.
    bool read(std::size_t frame, char* page) const;

    /// Writes and syncs a log of all good frames, except frames of the pages `without`. Returns the
    /// error, or nothing.
    std::string write_good(const std::string& path, const std::set<std::uint32_t>& without) const;

private:
    struct Sums {
        std::uint32_t first = 0;
        std::uint32_t second = 0;
        bool operator==(const Sums&) const = default;
    };

    void read_header();
    void read_frames();
    Sums take_beginning(const char* bytes);
    WalFrame judge(char* bytes, bool is_ours, Sums& before) const;
    std::optional<WalFrame::Flip> find_flip(const char* bytes, Sums before) const;
    bool explains(Sums off, Sums factor, const char* bytes, unsigned bit) const;
    WalFrame::Flip flip_at(std::size_t place, unsigned bit) const;
    std::uint32_t word(const char* bytes) const;
    Sums add(Sums sums, const char* bytes, std::size_t size) const;
    Sums sums_of_frame(Sums before, const char* bytes) const;
    static Sums sums_at(const char* bytes);
    static void put_sums(char* bytes, Sums sums);
    static bool differ_in_one_bit(Sums a, Sums b);

    UniqueFd file_;
    std::size_t size_ = 0;
    std::string header_;
    bool is_header_good_ = false;
    bool is_big_endian_ = false;  ///< its checksums use big-endian words
    Sums begin_;                  ///< the start value of the first frame's checksum
    std::string salt_;
    std::vector<WalFrame> frames_;
    std::size_t found_by_sqlite_ = 0;
};

}  // namespace pulsegate
