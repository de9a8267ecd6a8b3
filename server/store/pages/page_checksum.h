#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pulsegate {

// The last bytes of each page of a database are a checksum of the other bytes and of the page's
// number. So a page that was written to a wrong place is detected, too.

inline constexpr std::size_t checked_page_size = 4096;
inline constexpr std::size_t page_checksum_size = 24;

using PageBytes = std::span<unsigned char, checked_page_size>;

void seal_page(PageBytes page, std::uint32_t number);

enum class PageState {
    sound,
    mended,   ///< one bit was wrong, and was corrected
    damaged,  ///< it is left as it is
};
PageState check_page(PageBytes page, std::uint32_t number);

}  // namespace pulsegate
