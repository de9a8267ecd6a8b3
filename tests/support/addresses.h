#pragma once

#include <boost/asio/ip/address_v4.hpp>
#include <cstdint>

#include "server/limits/address.h"

namespace pulsegate {

/// The address 10.0.0.0 plus `number`.
inline Address address(std::uint32_t number) {
    return Address(boost::asio::ip::address_v4(0x0A000000 + number));
}

}  // namespace pulsegate
