#pragma once

#include <openssl/ossl_typ.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "protocol/bytes.h"

namespace pulsegate::load {

/// The objects that all TLS connections of a group share.
class TlsContext {
public:
    enum class Verify : bool { no, yes };

    /// `ca_file` empty: the system's certificates. Throws `std::runtime_error`.
    explicit TlsContext(Verify verify, const std::string& ca_file = {});

    SSL_CTX* get() const { return context_.get(); }
    bool verifies() const { return verify_ == Verify::yes; }

private:
    struct Free {
        void operator()(SSL_CTX* context) const;
    };
    std::unique_ptr<SSL_CTX, Free> context_;
    Verify verify_;
};

/// The client's side of one TLS connection: it converts between ciphertext and plain text. It has
/// no socket, so one `recv` and one `send` are enough for any number of records.
class TlsSession {
public:
    enum class State : std::uint8_t { handshaking, open, closed, failed };

    /// The result of the server's bytes.
    struct Received {
        State state = State::handshaking;
        std::size_t size = 0;  ///< of the plain text
        std::string cause{};   ///< failed: in words
    };

    /// The certificate must be for `host`.
    TlsSession(const TlsContext& context, const std::string& host);
    TlsSession(const TlsSession&) = delete;
    TlsSession& operator=(const TlsSession&) = delete;

    /// Takes all of `cipher`, appends the bytes to send to `answer`, and writes the plain text to
    /// `plain`, which must be 16 KiB larger than `cipher`. The first call has no bytes and begins
    /// the handshake.
    Received receive(Bytes cipher, std::span<std::uint8_t> plain, Buffer& answer);

    /// Appends the plain text's records.
    void send(std::string_view plain, Buffer& cipher);

    /// Appends the message that nothing more will be sent.
    void finish(Buffer& cipher);

private:
    struct Free {
        void operator()(SSL* session) const;
    };
    /// The buffers that OpenSSL uses instead of a socket.
    struct Transfer {
        Bytes in;
        Buffer* out = nullptr;
    };
    struct Io;  // the functions that OpenSSL calls

    bool shake_hands(Received& result);
    void read(std::span<std::uint8_t> plain, Received& result);
    void fail(Received& result, int status) const;

    Transfer transfer_;
    std::unique_ptr<SSL, Free> session_;
};

}  // namespace pulsegate::load
