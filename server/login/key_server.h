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
    std::optional<HttpUrl> url;  ///< of a JWK set; nothing: there is no key server
    std::string ca_file;         ///< PEM; "": the authorities that the system trusts
    Millis refresh = 300'000;    ///< from one fetch to the next
    Millis keep = 3'600'000;     ///< how long a key is kept after it has left the set
};

/// What the key server has done since the start.
struct KeyServerCounters {
    std::uint64_t fetched = 0;
    std::uint64_t failed = 0;
    std::size_t keys = 0;           ///< keys in use now
    Millis last = monotonic_now();  ///< when the last set arrived, or the start
};

/// Fetches the public keys of an identity provider over HTTP, on a thread of its own: at the start,
/// at intervals, and when a token names a key that is unknown. While the server fails, the last
/// good set stays.
class KeyServer {
public:
    /// Throws std::runtime_error that names the file and the remedy.
    explicit KeyServer(KeyServerSettings settings);
    ~KeyServer();

    /// Null if no set has arrived yet. Any thread.
    std::shared_ptr<const JwkSet> keys() const;
    /// True if the last fetch failed, or none has ended yet. Any thread.
    bool is_in_trouble() const;

    enum class Waited : std::uint8_t {
        is_over,   ///< the set was fetched, or the fetch failed
        too_many,  ///< refused: other addresses or users have fewer waiting logins
    };
    using Done = std::function<void(Waited)>;

    /// Call it when a token names an unknown key. Fetches the set, unless it was fetched a moment
    /// ago, and calls `done` on its own thread. Any thread.
    void await(const Address& address, std::string_view user, Done done);

    /// Reads the credentials from their files. Throws as the constructor does.
    std::shared_ptr<const HttpCredentials> read_credentials() const;
    /// Uses these credentials for all further requests, and fetches the set at once.
    void use(std::shared_ptr<const HttpCredentials> credentials);
    /// Applies the intervals. The other settings must be as before.
    void use(const KeyServerSettings& settings);

    KeyServerCounters counters() const;

    /// Makes no more calls.
    void stop();

private:
    struct Impl;
    const KeyServerSettings settings_;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pulsegate
