#pragma once

#include <span>
#include <string_view>

#include "protocol/decode.h"

namespace pulsegate {

/// A valid packet, in packet notation.
struct ValidVector {
    std::string_view what;
    Version version;
    Sender sender;
    std::string_view notation;
    std::string_view shortest{};  ///< our encoding of it; empty: the same bytes
};

/// A packet that breaks one rule, the rule as a sentence, and how it is refused.
struct BadVector {
    std::string_view rule;
    Version version;
    Sender sender;
    std::string_view notation;
    Reason reason;
    std::string_view cause;
};

/// Every packet of both versions in both directions, for tests, mutations and the fuzzer.
std::span<const ValidVector> valid_vectors();

/// One packet for each rule.
std::span<const BadVector> bad_vectors();

}  // namespace pulsegate
