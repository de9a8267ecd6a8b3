#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "loadgen/client/identities.h"
#include "loadgen/client/profile.h"
#include "loadgen/net/tls.h"
#include "loadgen/swarm/assignment.h"
#include "loadgen/time.h"

namespace pulsegate::load {

/// How the clients of each group connect, and under which names.
class Profiles {
public:
    /// Resolves names and reads files. Throws `std::runtime_error`.
    explicit Profiles(const Assignment& assignment);

    const ClientProfile& of(std::size_t group) const { return profiles_[group]; }

    /// The name under which the server shows the presence of a client.
    std::string presence_name(std::uint32_t number) const;

    /// The number of the client of this run with this client identifier.
    std::optional<std::uint32_t> number_of(std::string_view client_id) const;

    /// Presence belongs to users. Several clients may be one user; the first client's number
    /// identifies the user.
    std::uint32_t user_of(std::uint32_t number) const { return identities_.first_of_user(number); }

    /// Its token has expired, so that the server may close it.
    bool token_expired(std::uint32_t number, Time now) const;

private:
    ClientProfile make(const Group& group, const Assignment& assignment);

    const std::string client_ids_;  ///< the beginning of the run's client identifiers
    Identities identities_;
    std::unique_ptr<TlsContext> tls_;
    std::deque<ClientProfile> profiles_;  ///< by group
};

}  // namespace pulsegate::load
