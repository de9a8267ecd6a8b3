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

/// What a handshake of OpenSSL's shows by its callbacks, as far as it is needed to go on without
/// OpenSSL's object. Its secrets are wiped with it.
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

    /// Goes on where the handshake of this object has ended, `unopened` being what has come behind
    /// it. The object may be freed if `small` is there; else it is to be kept, for the reason that
    /// `idle` says.
    struct Outcome {
        std::unique_ptr<SmallTls> small{};
        TlsIdle idle;
    };
    Outcome go_on(SSL* ssl, std::string_view unopened) const;

private:
    using Secret = std::array<std::uint8_t, longest_secret>;

    std::optional<TlsIdle> obstacle(const SSL* ssl) const;
    bool can_open_last_record(Suite suite) const;

    Secret client_{};     ///< of its data
    Secret server_{};     ///< of ours
    Secret handshake_{};  ///< of our messages in the handshake
    bool is_of_data_ = false;
    bool has_odd_extension_ = false;
    unsigned sent_ = 0;               ///< records under the key that we send with now
    unsigned sent_in_handshake_ = 0;  ///< under the key before
    Buffer last_record_{};            ///< that was written, or as much of it as has been
};

}  // namespace pulsegate
