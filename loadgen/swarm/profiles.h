#pragma once

#include <deque>
#include <memory>

#include "loadgen/client/identities.h"
#include "loadgen/client/profile.h"
#include "loadgen/lab/assignment.h"
#include "loadgen/net/tls.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// How the clients of each group connect, and under which names.
class Profiles {
public:
    /// Resolves names and reads files: it throws `std::runtime_error`.
    explicit Profiles(const Assignment& assignment);

    const ClientProfile& of(std::size_t group) const { return profiles_[group]; }

    /// Under which name the server shows the presence of a client.
    std::string presence_name(std::uint32_t number) const;

    /// Presence is a user's. Several clients may be one user: it is named after the first.
    std::uint32_t user_of(std::uint32_t number) const { return identities_.first_of_user(number); }

    /// Its token has expired, so that the server may close it.
    bool token_expired(std::uint32_t number, Time now) const;

private:
    ClientProfile make(const Group& group, const Assignment& assignment);

    Identities identities_;
    std::unique_ptr<TlsContext> tls_;
    std::deque<ClientProfile> profiles_;  ///< by group
};

}  // namespace pulsegate::load
