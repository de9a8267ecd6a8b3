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
    std::optional<HttpUrl> url;  ///< nothing: nobody is asked
    std::string ca_file;         ///< PEM; "": the authorities that the system trusts
    std::string token_file;      ///< "": no Authorization
    Millis timeout = 3'000;      ///< for the answer, and for the turn to be asked
    Millis cache = 10'000;       ///< how long an answer is remembered; 0: not at all
    unsigned connections = 16;
};

/// What the hook has done since the start.
struct HookCounters {
    std::uint64_t allowed = 0;
    std::uint64_t denied = 0;
    std::uint64_t failed = 0;      ///< no answer, or none that can be used
    std::uint64_t busy = 0;        ///< not asked, because too many wait
    std::uint64_t revoked = 0;     ///< allowed, but a user's logins were revoked meanwhile
    std::uint64_t remembered = 0;  ///< logins that needed no request of their own

    Histogram<5, 10, 25, 50, 100, 250, 500, 1'000, 2'500, 5'000> wait;  ///< for the answers
};

/// Asks the company's own backend whether a client may come in, over HTTP, on a thread of its own.
///
/// It fails closed: without a clear answer in time nobody comes in. Those who ask the same at the
/// same time share one request, and for a while its answer, unless the cache is off.
class AuthHook {
public:
    using Answer = std::function<void(AuthResult)>;

    /// Throws std::runtime_error that names the file and the remedy.
    explicit AuthHook(AuthHookSettings settings);
    ~AuthHook();

    /// From any thread; `answer` is called on the hook's own. Logins that wait for a connection
    /// take turns by their address, and by their user within an address.
    void authenticate(Credentials credentials, const Address& address, Answer answer);

    /// Reads them from files. Throws as the constructor does.
    std::shared_ptr<const HttpCredentials> read_credentials() const;
    /// For all requests from now on. What is remembered is forgotten.
    void use(std::shared_ptr<const HttpCredentials> credentials);
    /// Puts the timeout, the cache's lifetime and the number of connections to use; the rest of the
    /// settings must be as before. What is remembered is forgotten.
    void use(const AuthHookSettings& settings);

    /// Forgets what is remembered. Whom a request that is under way allows must come again: the
    /// backend may not have known yet who is no longer welcome.
    void forget();

    HookCounters counters() const;

    /// No answers any more.
    void stop();

private:
    struct Impl;
    const AuthHookSettings settings_;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pulsegate
