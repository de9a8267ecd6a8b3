#pragma once

#include <chrono>
#include <string>

namespace pulsegate::load {

/// The identities of clients. In patterns, {n} is the client's number.
struct IdentitySettings {
    std::string client_id = "loadgen-{n}";
    std::string users_file{};       ///< NAME:PASSWORD lines: client n is user n; if there are fewer
                                    ///< lines than clients, they are used again from the start
    std::string user{};             ///< a pattern; empty: no user name
    std::string password{};         ///< a pattern; empty: no password
    std::string jwt_secret_file{};  ///< the password is a token signed with HS256,
    std::string jwt_key_file{};     ///< or with RS256 or ES256, by the type of this private key
    std::chrono::seconds jwt_life{3600};
};

}  // namespace pulsegate::load
