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

/// The TLS of one connection by OpenSSL, on a socket that it does not own: the handshake, and
/// everything after it unless SmallTls replaces it.
///
/// One call of OpenSSL continues as long as the socket has records without data: key updates,
/// refused renegotiations, empty records. Here a call takes a limited number of records, and then
/// reports "not now". A peer that sends too many of them in a row is disconnected.
class TlsSession {
public:
    /// The state that is kept after the handshake.
    enum class Idle : std::uint8_t { openssl, small };

    /// Prepares the context, so that its sessions know what `Idle::small` needs.
    static void prepare(SSL_CTX* context);

    /// Waits for the client's hello. Null if there is no memory.
    static std::unique_ptr<TlsSession> accept(SSL_CTX* context, int socket, Idle idle);

    TlsSession(const TlsSession&) = delete;
    TlsSession& operator=(const TlsSession&) = delete;

    /// The approximate memory that it takes until the client has logged in, if the socket has the
    /// client's hello. As soon as OpenSSL has nine bytes, it allocates the size that the hello
    /// claims.
    static std::size_t memory_for(int socket);

    /// The result of SSL_do_handshake.
    int shake_hands();
    /// Call it once `shake_hands` has returned 1, before anything else. Returns the replacement of
    /// this object, or the reason why this object must be kept.
    TlsSwitch::Outcome go_on_small();

    /// Like recv and send. A fault of the protocol is EPROTO. EINTR: the call has taken as many
    /// records as allowed, and the socket may have more.
    ssize_t receive(void* buffer, std::size_t size);
    ssize_t send(const void* bytes, std::size_t size);

    /// Did the last call take as many records as allowed?
    bool is_stopped() const { return taken_ >= most_in_a_call; }
    /// The number of records without data that the last call took. A key update costs about 10 µs.
    unsigned taken_without_data() const { return taken_without_data_; }
    /// Has the peer sent too many records without data? Then the connection is no longer read.
    bool is_flooded() const { return without_data_ >= most_without_data; }

    /// The number of bytes that arrived with the end of the handshake and are not read yet.
    std::size_t kept() const { return rest_.size(); }

    /// Does the answer to a key update wait until the socket accepts more?
    bool wants_to_write() const { return SSL_want_write(ssl()); }

    SSL* ssl() const { return ssl_.get(); }

private:
    struct Deleter {
        void operator()(SSL* ssl) const { SSL_free(ssl); }
    };

    /// More than a usual flight of a handshake needs.
    static constexpr std::uint8_t most_in_a_call = 8;
    static constexpr std::uint8_t most_without_data = 32;

    TlsSession(SSL_CTX* context, int socket, Idle idle);
    bool attach();
    void begin_call();
    void note_sent(int type, Bytes bytes);
    ssize_t fetch(char* bytes, std::size_t size);

    // Callbacks of OpenSSL.
    static void count_record(int is_sent, int version, int type, const void* bytes,
                             std::size_t size, SSL* ssl, void* self);
    static int read_socket(BIO* bio, char* bytes, int size);
    static int write_socket(BIO* bio, const char* bytes, int size);
    static long control(BIO* bio, int command, long number, void* pointer);
    static void on_secret(const SSL* ssl, const char* line);
    static const BIO_METHOD* method();

    std::uint8_t taken_ = 0;  ///< records that the last call took
    std::uint8_t taken_without_data_ = 0;
    std::uint8_t without_data_ = 0;  ///< records since the last record with data
    bool is_at_end_ = false;         ///< the socket has no more input
    bool shakes_hands_ = false;
    bool has_read_ = false;  ///< this call has read from the socket
    const int socket_;
    std::string_view ahead_{};  ///< input from the socket that the handshake has not used yet
    std::string rest_{};        ///< the unused rest of `ahead_` after a call of the handshake
    std::unique_ptr<TlsSwitch>
        switch_;  ///< until the end of the handshake; null if the switch is not wanted
    const std::unique_ptr<SSL, Deleter> ssl_;
};

}  // namespace pulsegate
