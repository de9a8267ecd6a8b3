#pragma once

#include <string>

namespace pulsegate {

/// What a client shows of itself, as a copy.
struct Claim {
    std::string user;      ///< "" if it names none
    std::string password;  ///< or token
    std::string client;    ///< the client id; "" if it asks for one
    std::string address;   ///< the IP address that it comes from
};

}  // namespace pulsegate
