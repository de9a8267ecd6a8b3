#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/transport/tls/tls_keys.h"

namespace pulsegate {

/// Types of TLS records.
namespace record {
inline constexpr std::uint8_t change_cipher_spec = 20;
inline constexpr std::uint8_t alert = 21;
inline constexpr std::uint8_t handshake = 22;
inline constexpr std::uint8_t data = 23;
}  // namespace record

/// The client's side of TLS records: it seals whatever it is told, right or wrong.
class TlsPeer {
public:
    using Secret = std::array<std::uint8_t, longest_secret>;

    /// A secret that begins so.
    static Secret secret(std::uint8_t first);

    TlsPeer(Suite suite, const Secret& of_client, const Secret& of_server);
    TlsPeer(const TlsPeer&) = delete;
    TlsPeer& operator=(const TlsPeer&) = delete;

    /// What a server with the same secrets begins with.
    TlsKeys keys_of_server() const;

    /// A record with that content, and so many zeros behind its type.
    std::string seal(std::uint8_t type, std::string_view content, std::size_t padding = 0);
    /// A record with this inside: content, type and padding.
    std::string seal_inner(std::string_view inner);
    /// A KeyUpdate; what is sealed next has the next key.
    std::string update_keys(bool asks_for_one = false);

    struct Opened {
        std::uint8_t type;
        std::string content;
        friend bool operator==(const Opened&, const Opened&) = default;
    };
    /// Takes the first record of what the server has sent. Nothing if there is none, or it does not
    /// open.
    std::optional<Opened> open(std::string& sent);
    /// Takes all of them. After a KeyUpdate the next key is used.
    std::string open_all(std::string& sent);
    /// The alert that `open_all` has seen; nothing: none.
    std::optional<std::uint8_t> alert() const { return alert_; }
    unsigned key_updates() const { return key_updates_; }

    TrafficKeys of_client() { return {suite_, client_.data()}; }
    TrafficKeys of_server() { return {suite_, server_.data()}; }

private:
    using Memory = std::array<std::uint8_t, TrafficKeys::size(Suite::aes_256_gcm)>;

    const Suite suite_;
    const Secret client_secret_;
    const Secret server_secret_;
    Memory client_{};
    Memory server_{};
    std::optional<std::uint8_t> alert_{};
    unsigned key_updates_ = 0;
};

}  // namespace pulsegate
