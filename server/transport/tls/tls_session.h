#pragma once

#include <openssl/ssl.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/transport/tls/tls_switch.h"

namespace pulsegate {

/// The TLS of one connection by OpenSSL, on a socket that it does not own: the handshake, and all
/// of it if SmallTls does not go on.
///
/// One call of OpenSSL goes on as long as the socket has records that carry no data: updates of
/// keys, refused renegotiations, empty records. Here a call takes so many records at most, and says
/// "not now" then. A peer that sends too many of them in a row is given up.
class TlsSession {
public:
    /// What is kept of it after its handshake.
    enum class Idle : std::uint8_t { openssl, small };

    /// Has the context tell its sessions what they need for `Idle::small`.
    static void prepare(SSL_CTX* context);

    /// Waits for the client's hello. Null if there is no memory.
    static std::unique_ptr<TlsSession> accept(SSL_CTX* context, int socket, Idle idle);

    TlsSession(const TlsSession&) = delete;
    TlsSession& operator=(const TlsSession&) = delete;

    /// What it takes until the client has logged in, about, if its hello is what waits in the
    /// socket: OpenSSL makes room for as much as the hello claims to be when it has nine bytes.
    static std::size_t memory_for(int socket);

    /// The result of SSL_do_handshake.
    int shake_hands();
    /// Once it is 1, before anything else: what goes on without this object, or why it is to be
    /// kept.
    TlsSwitch::Outcome go_on_small();

    /// As recv and send. A fault of the protocol is EPROTO. EINTR: the call has taken as many
    /// records as it may, and the socket may have more.
    ssize_t receive(void* buffer, std::size_t size);
    ssize_t send(const void* bytes, std::size_t size);

    /// Has the last call taken as many records as it may?
    bool is_stopped() const { return taken_ >= most_in_a_call; }
    /// Records without data that the last call took. An update of keys costs some 10 µs.
    unsigned taken_without_data() const { return taken_without_data_; }
    /// Has the peer sent too many records without data? Then it is read no more.
    bool is_flooded() const { return without_data_ >= most_without_data; }

    /// Bytes that came with the end of the handshake, and are not read yet.
    std::size_t kept() const { return rest_.size(); }

    /// Does the answer to an update of keys wait until the socket takes more?
    bool wants_to_write() const { return SSL_want_write(ssl()); }

    SSL* ssl() const { return ssl_.get(); }

private:
    struct Deleter {
        void operator()(SSL* ssl) const { SSL_free(ssl); }
    };

    /// A usual flight of a handshake has fewer.
    static constexpr std::uint8_t most_in_a_call = 8;
    static constexpr std::uint8_t most_without_data = 32;

    TlsSession(SSL_CTX* context, int socket, Idle idle);
    bool attach();
    void begin_call();
    void note_sent(int type, Bytes bytes);
    ssize_t fetch(char* bytes, std::size_t size);

    // What OpenSSL calls.
    static void count_record(int is_sent, int version, int type, const void* bytes,
                             std::size_t size, SSL* ssl, void* self);
    static int read_socket(BIO* bio, char* bytes, int size);
    static int write_socket(BIO* bio, const char* bytes, int size);
    static long control(BIO* bio, int command, long number, void* pointer);
    static void on_secret(const SSL* ssl, const char* line);
    static const BIO_METHOD* method();

    std::uint8_t taken_ = 0;  ///< records, by the last call
    std::uint8_t taken_without_data_ = 0;
    std::uint8_t without_data_ = 0;  ///< records since the last with data
    bool is_at_end_ = false;         ///< of what the socket gives
    bool shakes_hands_ = false;
    bool has_read_ = false;  ///< from the socket, in this call
    const int socket_;
    std::string_view ahead_{};  ///< read from the socket, while the handshake takes of it
    std::string rest_{};        ///< what a call of the handshake has left of that
    std::unique_ptr<TlsSwitch>
        switch_;  ///< until the end of the handshake; null: it is not asked for
    const std::unique_ptr<SSL, Deleter> ssl_;
};

}  // namespace pulsegate
