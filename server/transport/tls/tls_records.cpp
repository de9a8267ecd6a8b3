#include "server/transport/tls/tls_records.h"

#include <algorithm>
#include <cstring>

namespace pulsegate {

namespace {

// Types of records (RFC 8446, section 5.1).
constexpr std::uint8_t alert_type = 21;
constexpr std::uint8_t handshake_type = 22;
constexpr std::uint8_t data_type = 23;

constexpr std::uint8_t warning = 1;
constexpr std::uint8_t fatal = 2;

/// The header of a KeyUpdate with its length of 1 (section 4.6.3). No other handshake message may
/// come now, because the gateway asks for no certificate after the handshake.
constexpr std::array<std::uint8_t, 4> key_update = {24, 0, 0, 1};
// Does not ask for an update in return.
constexpr std::string_view our_key_update("\x18\x00\x00\x01\x00", 5);

constexpr std::size_t length_of(Bytes header) { return std::size_t{header[3]} << 8 | header[4]; }

}  // namespace

// -- input --

/// The fault of a record's header. The rest of such a record is not awaited.
std::optional<TlsRecords::Alert> TlsRecords::fault_of_header(Bytes header) {
    if (header[0] != data_type) return Alert::unexpected_message;
    if (header[1] != 3 || header[2] != 3) return Alert::protocol_version;
    if (header_size + length_of(header) > longest_record) return Alert::record_overflow;
    if (length_of(header) < 1 + tag_size) return Alert::bad_record_mac;
    return std::nullopt;
}

std::size_t TlsRecords::needed(Bytes beginning) {
    if (beginning.size() < header_size || fault_of_header(beginning)) return header_size;
    return header_size + length_of(beginning);
}

TlsRecords::Opened TlsRecords::open(std::span<std::uint8_t> input) {
    std::uint8_t* const front = input.data();
    Opened opened{};
    begin_call();
    while (end_ == End::none && !is_stopped() && input.size() >= needed(input)) {
        if (const auto fault = fault_of_header(input)) {
            fail(*fault);
            break;
        }
        const std::size_t size = header_size + length_of(input);
        ++taken_;
        const auto inner = open_record(input.first(size));
        if (!inner) break;
        input = input.subspan(size);
        opened.consumed += size;
        const auto [type, content] = *inner;
        if (message_size_ > 0 && type != handshake_type) {
            fail(Alert::unexpected_message);  // it interrupts a KeyUpdate
        } else if (type == data_type && !content.empty()) {
            without_data_ = warnings_ = 0;
            std::memmove(front + opened.content, content.data(), content.size());
            opened.content += content.size();
        } else {
            ++taken_without_data_;
            if (type == alert_type)
                take_alert(content);
            else if (type == handshake_type)
                take_handshake(content);
            else if (type != data_type)
                fail(Alert::unexpected_message);
            if (end_ == End::none) count_without_data();
        }
    }
    return opened;
}

/// Decrypts the record, and removes the padding (section 5.4).
std::optional<TlsRecords::Inner> TlsRecords::open_record(std::span<std::uint8_t> record) {
    const auto refuse = [this](Alert alert) {
        fail(alert);
        return std::nullopt;
    };
    const auto use = keys_.of_client().use_once();
    if (!use) return refuse(Alert::internal_error);
    const auto text = record.subspan(header_size, record.size() - header_size - tag_size);
    const auto tag = record.last<tag_size>();
    if (!RecordCiphers::of_this_thread().open(*use, record.first(header_size), text, tag))
        return refuse(Alert::bad_record_mac);
    if (text.size() > most_content + 1) return refuse(Alert::record_overflow);
    std::size_t size = text.size();
    while (size > 0 && text[size - 1] == 0) --size;
    if (size == 0) return refuse(Alert::unexpected_message);
    const std::uint8_t type = text[--size];
    if (size > most_) return refuse(Alert::record_overflow);
    return Inner{type, text.first(size)};
}

void TlsRecords::fail(Alert alert) {
    end_ = End::fault;
    alert_ = alert;
}

/// Empty records and key updates are legal, but a peer that sends nothing else only wastes time.
void TlsRecords::count_without_data() {
    if (++without_data_ >= most_without_data) fail(Alert::unexpected_message);
}

/// The alert's level is ignored (section 6).
void TlsRecords::take_alert(Bytes content) {
    if (content.empty()) return fail(Alert::unexpected_message);
    if (content.size() != 2) return fail(Alert::decode_error);
    switch (static_cast<Alert>(content[1])) {
        case Alert::close_notify: end_ = End::closed; return;
        case Alert::user_canceled:
            if (++warnings_ > most_warnings) fail(Alert::unexpected_message);
            return;
        default: end_ = End::gone;
    }
}

/// A message may be split over several records.
void TlsRecords::take_handshake(Bytes content) {
    if (content.empty()) return fail(Alert::unexpected_message);
    for (std::size_t i = 0; i < content.size() && end_ == End::none; ++i)
        take_handshake_byte(content[i], i + 1 == content.size());
}

void TlsRecords::take_handshake_byte(std::uint8_t byte, bool is_last) {
    if (message_size_ < key_update.size()) {
        if (message_size_ == 0 && byte != key_update[0]) return fail(Alert::unexpected_message);
        // Any other length is an error, too.
        if (byte != key_update[message_size_]) return fail(Alert::decode_error);
        ++message_size_;
        return;
    }
    if (byte > 1) return fail(Alert::illegal_parameter);
    // Further bytes in this record would be encrypted with the old key.
    if (!is_last) return fail(Alert::unexpected_message);
    message_size_ = 0;
    if (!keys_.of_client().update()) return fail(Alert::internal_error);
    if (byte == 1) answers_update_ = true;
}

// -- output --

bool TlsRecords::seal(std::string_view content, Buffer& out) {
    // One answer is enough for any number of requests, and it may wait until the next data.
    if (answers_update_ && !update_key(out)) return false;
    while (!content.empty()) {
        if (keys_.of_server().sequence() >= records_of_a_key && !update_key(out)) return false;
        const auto part = content.substr(0, most_);
        if (!seal_record(data_type, part, out)) return false;
        content.remove_prefix(part.size());
    }
    return true;
}

bool TlsRecords::update_key(Buffer& out) {
    answers_update_ = false;
    return seal_record(handshake_type, our_key_update, out) && keys_.of_server().update();
}

bool TlsRecords::seal_end(Buffer& out) {
    if (end_ == End::gone) return true;
    const bool is_fault = alert_ != Alert::close_notify;
    const char content[] = {static_cast<char>(is_fault ? fatal : warning),
                            static_cast<char>(alert_)};
    return seal_record(alert_type, {content, sizeof content}, out);
}

bool TlsRecords::seal_record(std::uint8_t type, std::string_view content, Buffer& out) {
    const auto use = keys_.of_server().use_once();
    if (!use) return false;
    const std::size_t length = content.size() + 1 + tag_size;
    const std::size_t begin = out.size();
    out.resize(begin + header_size + length);
    const std::span<std::uint8_t> record(reinterpret_cast<std::uint8_t*>(out.data()) + begin,
                                         header_size + length);
    record[0] = data_type;
    record[1] = record[2] = 3;
    record[3] = static_cast<std::uint8_t>(length >> 8);
    record[4] = static_cast<std::uint8_t>(length);
    const auto text = record.subspan(header_size, content.size() + 1);
    std::copy(content.begin(), content.end(), text.begin());
    text.back() = type;
    return RecordCiphers::of_this_thread().seal(*use, record.first(header_size), text,
                                                record.last<tag_size>());
}

}  // namespace pulsegate
