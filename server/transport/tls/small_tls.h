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
/// does not own. At rest it has keys and some bytes of state, and no buffer.
class SmallTls {
public:
    /// `unopened`: records that came with the end of the handshake.
    SmallTls(TlsRecords records, std::string_view unopened);
    SmallTls(const SmallTls&) = delete;
    SmallTls& operator=(const SmallTls&) = delete;

    /// The least room that `receive` must be given.
    static constexpr std::size_t least_room = TlsRecords::longest_record + 1024;

    /// As recv: it reads what the socket has, and opens it in place. A fault of the protocol is
    /// EPROTO. EINTR: nothing for the application has come, and there may be more.
    ssize_t receive(int socket, std::uint8_t* buffer, std::size_t room);
    /// Would `receive` have something to say though the socket has nothing new?
    bool has_more() const { return has_more_; }

    /// Sends what `out` has behind its first `sent` bytes, and returns how many more of its bytes
    /// are done. What the socket does not take stays there as it was sealed: `out` may be given
    /// more bytes at its end, but is not to be changed otherwise. -1: `errno` says why, as of send.
    ssize_t send(int socket, Buffer& out, std::size_t sent);

    /// Sends these last bytes and the alert that ends the connection, if the socket takes them, and
    /// nothing waits to be sent.
    void end(int socket, std::string_view last_bytes);

    /// Bytes that it keeps of records that are not opened yet.
    std::size_t kept() const { return unopened_ ? unopened_->capacity() : 0; }
    /// Has it a whole record that is not opened yet?
    bool has_record() const;

    /// Has it neither ended nor failed, so that another process can go on?
    bool may_pass() const { return !cannot_send_ && records_.end() == TlsRecords::End::none; }
    TlsRecord describe() const;
    /// Null: that can't be.
    static std::unique_ptr<SmallTls> adopt(const TlsRecord& record);

    bool is_flooded() const { return records_.is_flooded(); }
    /// What the last call of `receive` took, see TlsRecords.
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
    std::uint32_t sealed_ = 0;  ///< bytes of what is to be sent that are sealed already
    bool has_more_ = false;
    bool cannot_send_ = false;
};

}  // namespace pulsegate
