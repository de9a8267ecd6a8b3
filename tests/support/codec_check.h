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

/// Checks what must hold for any bytes: decoding gives a value; if that is a packet, its encoding
/// decodes to the same packet and can't get shorter. Returns what does not hold, or null.
const char* broken_promise(Bytes stream, Version version, Sender sender);

}  // namespace pulsegate
