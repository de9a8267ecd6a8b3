#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "protocol/bytes.h"
#include "server/transport/tls/tls_records.h"

namespace pulsegate {

/// The TLS of one connection after its handshake, without OpenSSL's object, on a socket that it
/// does not own. At rest it has only keys and some bytes of state, but no buffer.
class SmallTls {
public:
    /// `unopened`: records that arrived with the end of the handshake.
    SmallTls(TlsRecords records, std::string_view unopened);
    SmallTls(const SmallTls&) = delete;
    SmallTls& operator=(const SmallTls&) = delete;

    /// The minimum size of the buffer for `receive`.
    static constexpr std::size_t least_room = TlsRecords::longest_record + 1024;

    /// Like recv: reads from the socket, and decrypts in place. A fault of the protocol is EPROTO.
    /// EINTR: there was no data for the application, and there may be more input.
    ssize_t receive(int socket, std::uint8_t* buffer, std::size_t room);
    /// Would `receive` return something although the socket has nothing new?
    bool has_more() const { return has_more_; }

    /// Sends the bytes of `out` after its first `sent` bytes, and returns how many more of them are
    /// done. Encrypted bytes that the socket does not accept stay in `out`: append to `out`, but do
    /// not change it otherwise. -1: `errno` has the reason, as with send.
    ssize_t send(int socket, Buffer& out, std::size_t sent);

    /// Sends these last bytes and the alert that ends the connection, if the socket accepts them
    /// and no output waits.
    void end(int socket, std::string_view last_bytes);

    /// The number of bytes that it keeps of records that are not decrypted yet.
    std::size_t kept() const { return unopened_ ? unopened_->capacity() : 0; }
    /// Does it have a complete record that is not decrypted yet?
    bool has_record() const;

    /// Has the peer ended it, or was there a fault? Then `receive` returns that, and no more data.
    bool has_ended() const { return records_.end() != TlsRecords::End::none; }
    /// Can another process continue it, because it has neither ended nor failed?
    bool may_pass() const { return !cannot_send_ && !has_ended(); }
    TlsRecord describe() const;
    /// Null if the record is not valid.
    static std::unique_ptr<SmallTls> adopt(const TlsRecord& record);

    bool is_flooded() const { return records_.is_flooded(); }
    /// The number of records that the last call of `receive` took, see TlsRecords.
    unsigned taken() const { return records_.taken(); }
    unsigned taken_without_data() const { return records_.taken_without_data(); }

private:
    std::size_t kept_size() const { return unopened_ ? unopened_->size() : 0; }
    ssize_t read(int socket, std::uint8_t* buffer, std::size_t room);
    ssize_t open(std::uint8_t* buffer, std::size_t size);
    ssize_t tell_end() const;
    void keep(Bytes rest);
    ssize_t seal_and_send(int socket, Buffer& out, std::size_t sent);
    ssize_t fail_to_send(int error);

    TlsRecords records_;
    std::unique_ptr<Buffer> unopened_;
    std::uint32_t sealed_ = 0;  ///< bytes of the output that are already encrypted
    bool has_more_ = false;
    bool cannot_send_ = false;
};

}  // namespace pulsegate
