#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pulsegate {

/// The state that is kept for a TLS client after its handshake: keys only (`small`), or OpenSSL's
/// object, with the reason.
enum class TlsIdle : std::uint8_t {
    small,
    setting,     ///< tls-idle says so
    version,     ///< TLS 1.2
    suite,       ///< not one of the three known suites
    fips,        ///< OpenSSL uses its FIPS provider
    extension,   ///< client and OpenSSL have negotiated an extension unknown here
    unread,      ///< OpenSSL has read bytes behind the handshake
    self_check,  ///< OpenSSL's last record did not open with these keys
    no_memory,
};

/// The values of a metric's label, in the order of TlsIdle.
inline constexpr std::array<std::string_view, 9> tls_idle_names = {
    "small",     "setting", "tls_1_2",    "suite",    "fips",
    "extension", "unread",  "self_check", "no_memory"};
static_assert(tls_idle_names.size() == static_cast<std::size_t>(TlsIdle::no_memory) + 1);

}  // namespace pulsegate
