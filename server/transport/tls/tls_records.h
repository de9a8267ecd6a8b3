#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "protocol/bytes.h"
#include "server/transport/tls/tls_keys.h"
#include "server/upgrade/client_record.h"

namespace pulsegate {

/// The record layer of one TLS 1.3 connection of a server after its handshake (RFC 8446, sections
/// 4.6.3, 5 and 6): the records that it accepts and sends. It has no socket and no buffer. Except
/// for the keys, it is plain data.
class TlsRecords {
public:
    enum class Alert : std::uint8_t {
        close_notify = 0,
        unexpected_message = 10,
        bad_record_mac = 20,
        record_overflow = 22,
        illegal_parameter = 47,
        decode_error = 50,
        protocol_version = 70,
        internal_error = 80,
        user_canceled = 90,
    };
    /// The reason why nothing more is read.
    enum class End : std::uint8_t {
        none,
        closed,  ///< by the peer's close_notify
        gone,    ///< the peer has sent another alert, and gets no answer
        fault,   ///< the peer must be told `alert`
    };

    static constexpr std::size_t header_size = 5;
    static constexpr std::size_t most_content = 1 << 14;
    /// The bytes that a record adds to its content: header, type and tag.
    static constexpr std::size_t overhead = header_size + 1 + tag_size;
    static constexpr std::size_t longest_record = header_size + most_content + 256;

    /// After this many records, the next key is used. This is far below the limit of AES-GCM (RFC
    /// 8446, section 5.5).
    static constexpr std::uint64_t records_of_a_key = 1 << 23;

    /// `most` is the maximum content of a record: less than `most_content` if that was negotiated.
    explicit TlsRecords(TlsKeys keys, std::size_t most = most_content)
        : keys_(std::move(keys)), most_(static_cast<std::uint16_t>(most)) {}

    /// How many bytes of input with this beginning are needed before `open` can do something.
    static std::size_t needed(Bytes beginning);

    struct Opened {
        std::size_t consumed;  ///< bytes of the input
        std::size_t content;   ///< bytes of data from the peer, at the front of the input
    };
    /// Decrypts complete records in place. The number per call is limited.
    Opened open(std::span<std::uint8_t> input);
    /// Resets the counts of the last call of `open`.
    void begin_call() { taken_ = taken_without_data_ = 0; }

    End end() const { return end_; }
    /// Has the peer sent too many records without data in a row?
    bool is_flooded() const { return without_data_ >= most_without_data; }

    /// The number of records that the last call of `open` took, and how many of them had no data. A
    /// key update costs about 10 µs.
    unsigned taken() const { return taken_; }
    unsigned taken_without_data() const { return taken_without_data_; }
    /// Did the last call take as many records as allowed?
    bool is_stopped() const {
        return taken_ >= most_in_a_call || taken_without_data_ >= most_without_data_in_a_call;
    }

    /// The state that another process needs to continue, between two calls and before the end.
    TlsRecord describe() const;
    /// Continues from such a description. Nothing if the description is not valid.
    static std::optional<TlsRecords> adopt(const TlsRecord& record);

    /// Encrypts these bytes and appends them. If that fails, returns false, and nothing of `out`
    /// may be sent.
    [[nodiscard]] bool seal(std::string_view content, Buffer& out);
    /// Appends the alert that ends the connection, if the peer must get one. Returns the same.
    [[nodiscard]] bool seal_end(Buffer& out);

private:
    static constexpr std::uint8_t most_without_data = 32;  ///< in a row
    static constexpr std::uint8_t most_warnings = 4;       ///< in a row
    static constexpr std::uint8_t most_in_a_call = 128;
    static constexpr std::uint8_t most_without_data_in_a_call = 8;

    struct Inner {
        std::uint8_t type;
        std::span<std::uint8_t> content;
    };
    static std::optional<Alert> fault_of_header(Bytes header);
    std::optional<Inner> open_record(std::span<std::uint8_t> record);
    void fail(Alert alert);
    void count_without_data();
    void take_alert(Bytes content);
    void take_handshake(Bytes content);
    void take_handshake_byte(std::uint8_t byte, bool is_last);
    bool seal_record(std::uint8_t type, std::string_view content, Buffer& out);
    bool update_key(Buffer& out);

    TlsKeys keys_;
    const std::uint16_t most_;
    End end_ = End::none;
    Alert alert_ = Alert::close_notify;
    std::uint8_t message_size_ = 0;  ///< bytes of the beginning of a KeyUpdate: 4 at most
    std::uint8_t without_data_ = 0;  ///< records since the last record with data
    std::uint8_t warnings_ = 0;      ///< warnings among these
    std::uint8_t taken_ = 0;
    std::uint8_t taken_without_data_ = 0;
    bool answers_update_ = false;  ///< a KeyUpdate must be sent before the next data
};

}  // namespace pulsegate
