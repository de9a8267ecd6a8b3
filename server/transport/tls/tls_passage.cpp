// Passes a connection's TLS from one process to the next, in an upgrade. After that the first
// process must seal nothing more, because a record number would be used twice.
#include <memory>
#include <optional>

#include "server/transport/tls/small_tls.h"
#include "server/transport/tls/tls_records.h"

namespace pulsegate {

namespace {

std::span<const std::uint8_t> bytes_of(const SecretBytes& secret) {
    return as_bytes(secret.view());
}

/// The maximum of unopened bytes that fit into the buffer that all connections of a shard share.
constexpr std::size_t most_unopened = 48 * 1024;

}  // namespace

TlsRecord TlsRecords::describe() const {
    const TrafficKeys of_client = keys_.of_client();
    const TrafficKeys of_server = keys_.of_server();
    return {.suite = static_cast<std::uint8_t>(keys_.suite()),
            .most_content = most_,
            .message_size = message_size_,
            .without_data = without_data_,
            .warnings = warnings_,
            .answers_update = answers_update_,
            .client_number = of_client.sequence(),
            .server_number = of_server.sequence(),
            .client_secret = SecretBytes(as_text(of_client.secret_bytes())),
            .server_secret = SecretBytes(as_text(of_server.secret_bytes()))};
}

std::optional<TlsRecords> TlsRecords::adopt(const TlsRecord& record) {
    const bool is_sound =
        record.suite < suites && record.most_content > 0 && record.most_content <= most_content &&
        record.message_size <= sizeof(std::uint32_t) && record.without_data < most_without_data &&
        record.warnings <= most_warnings;
    if (!is_sound) return std::nullopt;
    TlsKeys keys(static_cast<Suite>(record.suite), bytes_of(record.client_secret),
                 bytes_of(record.server_secret));
    if (!keys) return std::nullopt;
    keys.of_client().set_sequence(record.client_number);
    keys.of_server().set_sequence(record.server_number);
    std::optional<TlsRecords> records(std::in_place, std::move(keys), record.most_content);
    records->message_size_ = record.message_size;
    records->without_data_ = record.without_data;
    records->warnings_ = record.warnings;
    records->answers_update_ = record.answers_update;
    return records;
}

TlsRecord SmallTls::describe() const {
    TlsRecord record = records_.describe();
    if (unopened_) record.unopened = *unopened_;
    record.sealed = sealed_;
    return record;
}

std::unique_ptr<SmallTls> SmallTls::adopt(const TlsRecord& record) {
    if (record.unopened.size() > most_unopened) return nullptr;
    auto records = TlsRecords::adopt(record);
    if (!records) return nullptr;
    auto adopted = std::make_unique<SmallTls>(*std::move(records), record.unopened);
    adopted->sealed_ = record.sealed;
    return adopted;
}

}  // namespace pulsegate
