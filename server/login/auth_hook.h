#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/auth/auth_result.h"
#include "server/auth/credentials.h"
#include "server/backend/http_client.h"
#include "server/base/clock.h"
#include "server/base/histogram.h"
#include "server/base/text/url.h"
#include "server/limits/address.h"

namespace pulsegate {

struct AuthHookSettings {
    std::optional<HttpUrl> url;  ///< nothing: there is no hook
    std::string ca_file;         ///< PEM; "": the authorities that the system trusts
    std::string token_file;      ///< "": no Authorization
    Millis timeout = 3'000;      ///< for the backend's answer, and for a request's turn
    Millis cache = 10'000;       ///< how long an answer is cached; 0: not at all
    unsigned connections = 16;
};

/// What the hook has done since the start.
struct HookCounters {
    std::uint64_t allowed = 0;
    std::uint64_t denied = 0;
    std::uint64_t failed = 0;      ///< no answer, or an unusable one
    std::uint64_t busy = 0;        ///< not asked, because too many logins wait
    std::uint64_t revoked = 0;     ///< allowed, but a user's logins were revoked meanwhile
    std::uint64_t remembered = 0;  ///< logins without a request of their own

    Histogram<5, 10, 25, 50, 100, 250, 500, 1'000, 2'500, 5'000> wait;  ///< for the answers
};

/// Asks the company's own backend over HTTP whether a client may log in, on a thread of its own.
///
/// It fails closed: a login without a clear answer in time is refused. Unless the cache is off,
/// logins with the same credentials share one request, and later ones its answer for a while.
class AuthHook {
public:
    using Answer = std::function<void(AuthResult)>;

    /// Throws std::runtime_error that names the file and the remedy.
    explicit AuthHook(AuthHookSettings settings);
    ~AuthHook();

    /// From any thread; `answer` is called on the hook's thread. Logins that wait for a connection
    /// take turns by address, and by user within an address.
    void authenticate(Credentials credentials, const Address& address, Answer answer);

    /// Reads the credentials from their files. Throws as the constructor does.
    std::shared_ptr<const HttpCredentials> read_credentials() const;
    /// Uses these credentials for all further requests, and forgets all answers.
    void use(std::shared_ptr<const HttpCredentials> credentials);
    /// Applies the timeout, the cache's lifetime and the number of connections, and forgets all
    /// answers. The other settings must be as before.
    void use(const AuthHookSettings& settings);

    /// Forgets all answers. A login that a pending request allows is refused and must be repeated:
    /// the backend may have answered before it knew of the revocation.
    void forget();
    /// Forgets all answers. Pending requests go on.
    void forget_cached();

    HookCounters counters() const;

    /// Gives no more answers.
    void stop();

private:
    struct Impl;
    const AuthHookSettings settings_;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pulsegate
