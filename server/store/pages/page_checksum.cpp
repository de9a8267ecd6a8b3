#include "server/store/pages/page_checksum.h"

#include <array>
#include <bit>
#include <cstring>

namespace pulsegate {

namespace {

constexpr std::size_t sealed_bytes = checked_page_size - page_checksum_size;
constexpr std::size_t words = sealed_bytes / 4;

/// The hash says whether the page is sound. The sums find a single wrong bit. The second sum counts
/// each word once for each word from it to the end. So a bit of value v in the word at place i
/// changes the first sum by v, and the second sum by v times (words - i).
struct PageChecksum {
    std::uint64_t hash;
    std::uint64_t sum;
    std::uint64_t sum_of_sums;

    bool operator==(const PageChecksum&) const = default;
};
static_assert(sizeof(PageChecksum) == page_checksum_size);

/// Four hashes side by side, because each step of a hash must wait for its previous step.
class Lanes {
public:
    explicit Lanes(std::uint64_t seed)
        : lanes_{seed * odd, (seed + 1) * odd, (seed + 2) * odd, (seed + 3) * odd} {}

    void add(std::size_t lane, std::uint64_t word) {
        lanes_[lane] = std::rotl(lanes_[lane] ^ word, 29) * odd;
    }
    std::uint64_t hash() {
        for (std::size_t lane = 1; lane < lanes_.size(); ++lane) add(0, lanes_[lane]);
        return lanes_[0];
    }

private:
    // The golden ratio, as a number without a pattern.
    static constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;

    std::array<std::uint64_t, 4> lanes_;
};

PageChecksum checksum_of(PageBytes page, std::uint32_t number) {
    Lanes lanes(number);
    PageChecksum made{.hash = 0, .sum = number, .sum_of_sums = 0};
    const auto add = [&](std::size_t lane, std::size_t place) {
        std::uint64_t two_words = 0;
        std::memcpy(&two_words, &page[place], sizeof two_words);
        lanes.add(lane, two_words);
        const auto first = static_cast<std::uint32_t>(two_words);
        const std::uint64_t second = two_words >> 32;
        made.sum_of_sums += 2 * made.sum + 2 * std::uint64_t{first} + second;
        made.sum += first + second;
    };
    std::size_t place = 0;
    for (; place + 32 <= sealed_bytes; place += 32)
        for (std::size_t lane = 0; lane < 4; ++lane) add(lane, place + 8 * lane);
    for (; place < sealed_bytes; place += 8) add(0, place);
    made.hash = lanes.hash();
    return made;
}

PageChecksum stored_checksum(PageBytes page) {
    PageChecksum stored{};
    std::memcpy(&stored, &page[sealed_bytes], sizeof stored);
    return stored;
}

/// Flips the bit that explains the difference. Returns false if no single bit does.
bool mend(PageBytes page, const PageChecksum& stored, const PageChecksum& found) {
    const auto more = static_cast<std::int64_t>(stored.sum - found.sum);
    const auto more_of_sums = static_cast<std::int64_t>(stored.sum_of_sums - found.sum_of_sums);
    const auto value = static_cast<std::uint64_t>(more < 0 ? -more : more);
    if (!std::has_single_bit(value) || value >> 32 != 0 || more_of_sums % more != 0) return false;
    const std::int64_t from_end = more_of_sums / more;
    if (from_end < 1 || from_end > static_cast<std::int64_t>(words)) return false;
    const std::size_t place = (words - static_cast<std::size_t>(from_end)) * 4;
    std::uint32_t word = 0;
    std::memcpy(&word, &page[place], sizeof word);
    word ^= static_cast<std::uint32_t>(value);
    std::memcpy(&page[place], &word, sizeof word);
    return true;
}

/// A single bit of the checksum itself is wrong: all other bits match the page.
bool is_only_checksum_wrong(const PageChecksum& stored, const PageChecksum& found) {
    const int wrong = std::popcount(stored.hash ^ found.hash) +
                      std::popcount(stored.sum ^ found.sum) +
                      std::popcount(stored.sum_of_sums ^ found.sum_of_sums);
    return wrong == 1;
}

}  // namespace

void seal_page(PageBytes page, std::uint32_t number) {
    const PageChecksum made = checksum_of(page, number);
    std::memcpy(&page[sealed_bytes], &made, sizeof made);
}

PageState check_page(PageBytes page, std::uint32_t number) {
    const PageChecksum stored = stored_checksum(page);
    const PageChecksum found = checksum_of(page, number);
    if (stored == found) return PageState::sound;
    if (is_only_checksum_wrong(stored, found)) {
        seal_page(page, number);
        return PageState::mended;
    }
    if (!mend(page, stored, found)) return PageState::damaged;
    if (checksum_of(page, number) == stored) return PageState::mended;
    mend(page, stored, found);  // flips it back
    return PageState::damaged;
}

}  // namespace pulsegate
