#include "server/upgrade/gateway_record.h"

#include "server/upgrade/record_fields.h"

namespace pulsegate {

namespace {

// The last digit is raised for a format that older versions can't read.
constexpr std::string_view gateway_beginning = "PGG1";
constexpr std::string_view history_beginning = "PGH1";

}  // namespace

template <class Fields, RecordOf<BanRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.address);
    field(2, record.user);
    field(3, record.client);
    field(4, record.is_ordered);
    field(5, record.left);
    field(6, record.reason);
}

template <class Fields, RecordOf<CountsRecord::Counted> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.address);
    field(2, record.fingerprint);
    field(3, record.present);
    field(4, record.past);
}

template <class Fields, RecordOf<CountsRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.age);
    field(2, record.counted);
}

template <class Fields, RecordOf<ClientCountsRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.flaps);
    field(2, record.takeovers);
}

template <class Fields, RecordOf<TicketKeysRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.age);
    field(2, record.present);
    field(3, record.past);
}

template <class Fields, RecordOf<AnswerRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.key);
    field(2, record.body_hash);
    field(3, record.age);
    field(4, record.answer);
}

template <class Fields, RecordOf<GatewayRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.bans);
    field(2, record.guesses);
    field(3, record.different_guesses);
    field(4, record.failures);
    field(5, record.shards);
    field(6, record.login_wait);
    field(7, record.ticket_keys);
    field(8 | optional_tag, record.answers);
}

template <class Fields, RecordOf<HistoryRecord::Event> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.user);
    field(2, record.account);
    field(3, record.is_refused);
    field(4, record.kind);
    field(5, record.time);
    field(6, record.count);
    field(7, record.lasted);
    field(8, record.silence);
    field(9, record.cause);
    field(10, record.reason);
    field(11, record.version);
    field(12, record.client);
    field(13, record.address);
    field(14, record.listener);
    field(15, record.why);
}

template <class Fields, RecordOf<HistoryRecord> Record>
void visit_fields(Record& record, Fields& field) {
    field(1, record.shard);
    field(2, record.events);
}

std::string encode(const GatewayRecord& record) { return encode_record(gateway_beginning, record); }
std::string encode(const HistoryRecord& record) { return encode_record(history_beginning, record); }

std::optional<GatewayRecord> decode_gateway(std::string_view bytes) {
    return decode_record<GatewayRecord>(gateway_beginning, bytes);
}

std::optional<HistoryRecord> decode_history(std::string_view bytes) {
    return decode_record<HistoryRecord>(history_beginning, bytes);
}

}  // namespace pulsegate
