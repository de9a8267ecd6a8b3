#pragma once

#include <string>

namespace pulsegate {

/// A client's credentials, copied from its CONNECT.
struct Credentials {
    std::string user{};      ///< the username; "" if there is none
    std::string password{};  ///< or its token
    std::string client{};    ///< the client id; "" if the gateway is to assign one
    std::string address{};   ///< the client's IP address, for the auth hook
};

}  // namespace pulsegate
