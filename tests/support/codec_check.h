#pragma once

#include <memory>

#include "protocol/decode.h"

namespace pulsegate {

/// A copy on the heap that ends where the bytes end, so that the address sanitizer sees a decoder
/// that reads past them.
class ExactCopy {
public:
    explicit ExactCopy(Bytes bytes);
    Bytes bytes() const { return {bytes_.get(), size_}; }

private:
    std::unique_ptr<std::uint8_t[]> bytes_;
    std::size_t size_;
};

/// What must hold for any bytes whatever: they give a value; and if that is a packet, what we
/// encode from it decodes to the same packet and can't get shorter. Returns what does not hold, or
/// null.
const char* broken_promise(Bytes stream, Version version, Sender sender);

}  // namespace pulsegate
