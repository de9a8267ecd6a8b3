#include "server/cluster/hash_scan.h"

#include <fmt/format.h>

#include <algorithm>

namespace pulsegate {

namespace {

constexpr std::size_t bytes_in_a_page = 4'000'000;
constexpr std::size_t most_fields_in_a_page = 1000;

}  // namespace

void HashScan::read_page(Deadline deadline, const Visit& visit) {
    const std::string count = std::to_string(count_);
    const RedisReply page = redis_.call({"HSCAN", hash_, cursor_, "COUNT", count}, deadline);
    if (page.items.size() != 2)
        throw RedisError(fmt::format("{}: HSCAN {}: {}", redis_.address(), hash_, page.text));
    cursor_ = page.items[0].text;
    is_done_ = cursor_ == "0";
    const auto& texts = page.items[1].items;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i + 1 < texts.size(); i += 2) {
        bytes += texts[i].text.size() + texts[i + 1].text.size();
        visit(texts[i].text, texts[i + 1].text);
    }
    choose_count(texts.size() / 2, bytes);
}

/// Chooses the number of fields for the next page. Redis scans a hash in random order, so the
/// fields of a page are a fair sample.
void HashScan::choose_count(std::size_t fields, std::size_t bytes) {
    if (bytes == 0) return;
    count_ = std::clamp<std::size_t>(fields * bytes_in_a_page / bytes, 1, most_fields_in_a_page);
}

}  // namespace pulsegate
