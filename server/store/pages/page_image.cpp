#include "server/store/pages/page_image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "server/store/pages/page_checksum.h"

namespace pulsegate {

namespace {

/// In the first page: how many bytes at the end of each page SQLite does not use.
constexpr std::size_t reserved_size_place = 20;

bool mend_page(DatabasePage& page, std::uint32_t number) {
    auto* const bytes = reinterpret_cast<unsigned char*>(page.data());
    return check_page(PageBytes(bytes, page.size()), number) != PageState::damaged;
}

}  // namespace

PageImage::PageImage(const std::string& path, const WalFile* wal)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)), wal_(wal) {
    struct stat about {};
    if (file_ && ::fstat(file_.get(), &about) == 0)
        pages_ = static_cast<std::uint32_t>(static_cast<std::size_t>(about.st_size) /
                                            database_page_size);
    if (wal_) find_frames();
    usable_ = find_usable();
}

void PageImage::find_frames() {
    const auto& frames = wal_->frames();
    for (std::size_t i = 0; i < frames.size(); ++i) {
        if (!frames[i].is_good || frames[i].page == 0) continue;
        frames_[frames[i].page] = i;
        pages_ = std::max(pages_, frames[i].page);
    }
}

/// One intact page among the first eight shows that the file has checksums. Without one, the header
/// tells. A log without a header is taken for one of a database with checksums, because each has
/// them since format 9.
std::size_t PageImage::find_usable() const {
    constexpr std::size_t with_checksum = database_page_size - page_checksum_size;
    DatabasePage page;
    for (std::uint32_t number = 1; number <= std::min(pages_, 8u); ++number)
        if (read_file(number, page) != Quality::missing && mend_page(page, number))
            return with_checksum;
    if (read_header(page))
        return page[reserved_size_place] == page_checksum_size ? with_checksum : database_page_size;
    return frames_.empty() ? database_page_size : with_checksum;
}

/// Returns false if the first page is missing, or does not begin as one.
bool PageImage::read_header(DatabasePage& page) const {
    const auto frame = frames_.find(1);
    const bool is_there = frame != frames_.end() ? wal_->read(frame->second, page.data())
                                                 : read_file(1, page) != Quality::missing;
    return is_there && std::string_view(page.data(), page.size()).starts_with("SQLite format 3");
}

PageImage::Quality PageImage::read(std::uint32_t number, DatabasePage& page) const {
    const auto frame = frames_.find(number);
    if (frame != frames_.end())
        return wal_->read(frame->second, page.data()) ? Quality::sound : Quality::missing;
    const Quality found = read_file(number, page);
    const bool has_checksum = usable_ < database_page_size;
    if (found == Quality::missing || !has_checksum || mend_page(page, number)) return found;
    return Quality::damaged;
}

PageImage::Quality PageImage::read_file(std::uint32_t number, DatabasePage& page) const {
    if (number == 0 || !file_) return Quality::missing;
    const auto offset = static_cast<off_t>(number - 1) * static_cast<off_t>(page.size());
    const auto size = ::pread(file_.get(), page.data(), page.size(), offset);
    return size == static_cast<ssize_t>(page.size()) ? Quality::sound : Quality::missing;
}

}  // namespace pulsegate
