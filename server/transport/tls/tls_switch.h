#pragma once

#include <openssl/ssl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "protocol/bytes.h"
#include "server/base/tls_idle.h"
#include "server/transport/tls/small_tls.h"

namespace pulsegate {

/// Collects the data from OpenSSL's callbacks that is needed to continue without OpenSSL's object
/// after the handshake. Its secrets are wiped when it is destroyed.
class TlsSwitch {
public:
    TlsSwitch() = default;
    TlsSwitch(const TlsSwitch&) = delete;
    TlsSwitch& operator=(const TlsSwitch&) = delete;
    ~TlsSwitch();

    /// A line of the key log: a label, the client's random, a secret.
    void on_secret(std::string_view line);
    /// The inner type of a record that has been sent encrypted.
    void on_sent_record() { ++sent_; }
    /// A handshake message that has been sent.
    void on_sent_message(Bytes message);
    /// Bytes that have gone into the socket.
    void on_written(Bytes bytes);

    /// The result of the switch after the handshake; `unopened` has the bytes after it. If there is
    /// a `small`, OpenSSL's object may be freed. Otherwise it must be kept, for the reason in
    /// `idle`.
    struct Outcome {
        std::unique_ptr<SmallTls> small{};
        TlsIdle idle;
    };
    Outcome go_on(SSL* ssl, std::string_view unopened) const;

private:
    using Secret = std::array<std::uint8_t, longest_secret>;

    std::optional<TlsIdle> obstacle(const SSL* ssl) const;
    bool can_open_last_record(const TlsKeys& keys) const;
    bool opens_last_record(TrafficKeys keys, unsigned next) const;

    Secret client_{};     ///< of the client's data
    Secret server_{};     ///< of the server's data
    Secret handshake_{};  ///< of the server's handshake messages
    bool is_of_data_ = false;
    bool has_odd_extension_ = false;
    unsigned sent_ = 0;               ///< records with the present key for sending
    unsigned sent_in_handshake_ = 0;  ///< records with the previous key
    Buffer last_record_{};            ///< the last record that was written, or its part that was
                                      ///< written
};

}  // namespace pulsegate
