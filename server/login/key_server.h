#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/auth/jwk_set.h"
#include "server/backend/http_client.h"
#include "server/base/clock.h"
#include "server/base/text/url.h"
#include "server/limits/address.h"

namespace pulsegate {

struct KeyServerSettings {
    std::optional<HttpUrl> url;  ///< of a JWK set; nothing: there is none
    std::string ca_file;         ///< PEM; "": the authorities that the system trusts
    Millis refresh = 300'000;    ///< from one fetch to the next
    Millis keep = 3'600'000;     ///< a key stays so long after it has left the set
};

/// What the key server has done since the start.
struct KeyServerCounters {
    std::uint64_t fetched = 0;
    std::uint64_t failed = 0;
    std::size_t keys = 0;           ///< that tokens are checked by now
    Millis last = monotonic_now();  ///< when a set came last, or the start
};

/// Fetches the public keys of an identity provider over HTTP, on a thread of its own: at the start,
/// at intervals, and when a token names a key that is unknown. While the server fails, the last
/// good set stays.
class KeyServer {
public:
    /// Throws std::runtime_error that names the file and the remedy.
    explicit KeyServer(KeyServerSettings settings);
    ~KeyServer();

    /// Null: no set has come yet. Any thread.
    std::shared_ptr<const JwkSet> keys() const;
    /// Did the last fetch fail, or has none ended yet? Any thread.
    bool is_in_trouble() const;

    enum class Waited : std::uint8_t {
        is_over,   ///< the set was fetched, or could not be
        too_many,  ///< others wait, and their addresses or users have fewer waiting
    };
    using Done = std::function<void(Waited)>;

    /// A token names a key that is unknown: fetches the set, unless that was done a moment ago, and
    /// calls `done` on its own thread. Any thread.
    void await(const Address& address, std::string_view user, Done done);

    /// Reads them from files. Throws as the constructor does.
    std::shared_ptr<const HttpCredentials> read_credentials() const;
    /// For all requests from now on; the next one comes at once.
    void use(std::shared_ptr<const HttpCredentials> credentials);
    /// Puts the intervals to use; the rest of the settings must be as before.
    void use(const KeyServerSettings& settings);

    KeyServerCounters counters() const;

    /// Calls nobody any more.
    void stop();

private:
    struct Impl;
    const KeyServerSettings settings_;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pulsegate
