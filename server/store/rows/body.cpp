#include "server/store/rows/body.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "server/store/rows/row_codec.h"

namespace pulsegate {

std::uint32_t checksum_of(const Message& message) {
    return checksum({message.topic, message.properties, message.payload});
}

MessageRef read_body(const Row& row, int first, Stamp stamp) {
    Message message{.topic = row.text(first + 1),
                    .payload = row.text(first + 3),
                    .properties = row.text(first + 2)};
    message.stamp = stamp;
    // A row whose header is damaged may have no columns: the checksum of nothing is 0.
    const bool is_damaged =
        message.topic.empty() || checksum_of(message) != row.as<std::uint32_t>(first);
    if (is_damaged) return nullptr;
    return share(std::move(message));
}

void note_damaged(Database& database, std::string_view table, std::int64_t key) {
    database.count_damaged_row();
    spdlog::error("row {} of table {} is damaged and left out", key, table);
}

}  // namespace pulsegate
