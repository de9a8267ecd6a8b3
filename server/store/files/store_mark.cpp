#include "server/store/files/store_mark.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <span>

namespace pulsegate {

namespace {

/// Writes the number's last digits to all of `out`, with leading zeros.
void put_digits(std::span<char> out, std::uint64_t number, unsigned base) {
    for (auto digit = out.rbegin(); digit != out.rend(); ++digit) {
        *digit = "0123456789abcdef"[number % base];
        number /= base;
    }
}

}  // namespace

StoreMark::StoreMark(const std::string& path, std::uint64_t store, std::uint64_t wal)
    : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640)),
      store_(store),
      at_{wal, 0} {
    if (!file_ && !path.empty())
        spdlog::warn("can't write {}: {}; a start may not notice that files were lost", path,
                     std::strerror(errno));
    write();
}

void StoreMark::committed(std::size_t frames) {
    at_ = {next_wal(), frames};
    is_begun_ = true;
    write();
}

void StoreMark::expect_nothing() {
    at_.frames = 0;
    write();
}

void StoreMark::restarted() {
    is_begun_ = false;
    expect_nothing();
}

/// Overwrites the mark with one write, which works on a full disk, too. It is written at each
/// commit, so it does without format strings, which take ten times as long.
void StoreMark::write() const {
    if (!file_) return;
    std::array<char, 16 + 1 + 20 + 1 + 20 + 1> line{};
    line.fill(' ');
    const std::span<char> all(line);
    put_digits(all.subspan(0, 16), store_, 16);
    put_digits(all.subspan(17, 20), at_.wal, 10);
    put_digits(all.subspan(38, 20), at_.frames, 10);
    line.back() = '\n';
    if (::pwrite(file_.get(), line.data(), line.size(), 0) != static_cast<ssize_t>(line.size()))
        spdlog::debug("can't write the store's mark: {}", std::strerror(errno));
}

std::optional<MarkedPoint> read_store_mark(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    std::array<char, 64> line{};
    if (!file || ::pread(file.get(), line.data(), line.size() - 1, 0) <= 0) return std::nullopt;
    MarkedPoint found;
    if (std::sscanf(line.data(), "%" SCNx64 " %" SCNu64 " %" SCNu64, &found.store, &found.at.wal,
                    &found.at.frames) != 3)
        return std::nullopt;
    return found;
}

}  // namespace pulsegate
