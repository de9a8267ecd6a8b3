#include "server/upgrade/record_codec.h"

#include <cstddef>
#include <cstdint>

#include "server/upgrade/record_fields.h"

namespace pulsegate {

namespace {

/// The last digit is raised for a format that older versions can't read.
constexpr std::string_view beginning = "PGC1";
// Tags of the session in a client's record, and of the user in the session. They are used to read
// the name alone.
constexpr std::uint8_t session_tag = 1;
constexpr std::uint8_t user_tag = 1;

}  // namespace

template <class Fields, RecordOf<MessageRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.topic);
    field(2, record.payload);
    field(3, record.properties);
    field(4, record.qos);
    field(5, record.retain);
    field(6, record.expires);
    field(7, record.stamp);
    field(8, record.retained);
    field(9, record.publisher);
    field(10, record.sender);
    field(11, record.presence_version);
}

template <class Fields, RecordOf<DeliveryRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.packet_id);
    field(2, record.qos);
    field(3, record.retain);
    field(4, record.is_from_inbox);
    field(5, record.is_released);
    field(6, record.waits);
    field(7, record.perhaps_sent);
    field(8, record.owner);
    field(9 | optional_tag, record.age);
    field(10, record.stamp);
    field(11, record.identifiers);
    field(12, record.share);
    field(13, record.message);
}

template <class Fields, RecordOf<SubscriptionRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.filter);
    field(2, record.options);
    field(3, record.identifier);
}

template <class Fields, RecordOf<WillRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.message);
    field(2, record.message_expiry);
    field(3, record.delay);
    field(4, record.authorization);
}

template <class Fields, RecordOf<AliasRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.alias);
    field(2, record.topic);
}

template <class Fields, RecordOf<ReplayRecord::Request> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.filter);
    field(2, record.options);
    field(3, record.identifier);
    field(4, record.since);
    field(5, record.is_owed);
}

template <class Fields, RecordOf<ReplayRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.requests);
    field(2, record.retained_done);
    field(3, record.after);
    field(4, record.shard);
    field(5, record.shards);
    field(6, record.position);
}

template <class Fields, RecordOf<SessionRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(user_tag, record.user);
    field(2, record.client);
    field(3, record.since);
    field(4, record.is_stored);
    field(5, record.expiry);
    field(6, record.version);
    field(7, record.max_packet_size);
    field(8, record.receive_maximum);
    field(9, record.wants_reasons);
    field(10, record.takes_reasons);
    field(11, record.last_packet_id);
    field(12 | optional_tag, record.ack_time);
    field(13, record.password_line);
    field(14, record.authorization);
    field(15, record.will);
    field(16, record.has_aliases);
    field(17, record.most_aliases);
    field(18, record.aliases_in);
    field(19, record.aliases_out);
    field(20, record.subscriptions);
    field(21, record.in_flight);
    field(22, record.queue);
    field(23, record.unreleased);
    field(24, record.released);
    field(25, record.replay);
    field(26, record.was_member);
}

template <class Fields, RecordOf<WebSocketRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.left);
    field(2, record.mask);
    field(3, record.empty_frames);
    field(4, record.is_inside_message);
    field(5, record.rest);
}

template <class Fields, RecordOf<TlsRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.suite);
    field(2, record.most_content);
    field(3, record.message_size);
    field(4, record.without_data);
    field(5, record.warnings);
    field(6, record.answers_update);
    field(7, record.unopened);
    field(8, record.sealed);
    field(9, record.client_number);
    field(10, record.server_number);
    field(11, record.client_secret);
    field(12, record.server_secret);
}

template <class Fields, RecordOf<ConnectionRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.listener);
    field(2, record.peer);
    field(3, record.peer_port);
    field(4, record.is_proxied);
    field(5, record.version);
    field(6, record.silence);
    field(7, record.limit);
    field(8, record.largest_packet);
    field(9, record.owed);
    field(10, record.is_parked);
    field(11, record.is_slowed);
    field(12, record.notify_drained);
    field(13, record.unfinished);
    field(14, record.unsent);
    field(15, record.websocket);
    field(16, record.tls);
}

template <class Fields, RecordOf<ClientRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(session_tag, record.session);
    field(2, record.connection);
}

std::string encode(const ClientRecord& record) { return encode_record(beginning, record); }

std::optional<ClientRecord> decode(std::string_view bytes) {
    return decode_record<ClientRecord>(beginning, bytes);
}

std::optional<std::string> user_of_record(std::string_view bytes) {
    const auto fields = fields_of(beginning, bytes);
    if (!fields) return std::nullopt;
    const std::string_view session = FieldReader(*fields).first(session_tag);
    return std::string(FieldReader(session).first(user_tag));
}

std::string sealed_record(std::string_view fields) {
    std::string out(beginning);
    out += fields;
    append_checksum(out);
    return out;
}

}  // namespace pulsegate
