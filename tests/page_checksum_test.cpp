#include "server/store/pages/page_checksum.h"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <random>

using namespace pulsegate;

namespace {

using WholePage = std::array<unsigned char, checked_page_size>;

WholePage random_page(std::mt19937& random) {
    WholePage page{};
    for (unsigned char& byte : page) byte = static_cast<unsigned char>(random());
    seal_page(page, 7);
    return page;
}

void flip(WholePage& page, std::size_t bit) {
    page[bit / 8] = static_cast<unsigned char>(page[bit / 8] ^ (1u << (bit % 8)));
}

}  // namespace

TEST_CASE("a page is sound under its own number only") {
    std::mt19937 random(1);
    WholePage page = random_page(random);
    CHECK(check_page(page, 7) == PageState::sound);
    CHECK(check_page(page, 8) == PageState::damaged);
}

TEST_CASE("one wrong bit of a page is put right, whichever it is") {
    std::mt19937 random(2);
    WholePage empty{};
    seal_page(empty, 7);
    for (const WholePage& page : {empty, random_page(random)}) {
        std::size_t mended = 0;
        for (std::size_t bit = 0; bit < page.size() * 8; ++bit) {
            WholePage damaged = page;
            flip(damaged, bit);
            mended += check_page(damaged, 7) == PageState::mended && damaged == page;
        }
        CHECK(mended == page.size() * 8);
    }
}

TEST_CASE("a page with several wrong bits is neither believed nor changed") {
    std::mt19937 random(3);
    const WholePage page = random_page(random);
    std::size_t believed = 0;
    for (int i = 0; i < 20'000; ++i) {
        WholePage damaged = page;
        const std::size_t first = random() % (page.size() * 8);
        flip(damaged, first);
        // Often the same bit of a neighbouring word: their sum stays what it was.
        flip(damaged,
             (first + (i % 2 == 0 ? 32u << random() % 8 : 1 + random())) % (page.size() * 8));
        if (damaged == page) continue;
        const WholePage before = damaged;
        believed += check_page(damaged, 7) != PageState::damaged || damaged != before;
    }
    CHECK(believed == 0);
    for (const std::size_t size : {2, 16, 512, 4096}) {
        WholePage torn = page;
        for (std::size_t at = 0; at < size; ++at) torn[at] = static_cast<unsigned char>(random());
        CHECK(check_page(torn, 7) == PageState::damaged);
    }
}
