#pragma once

namespace pulsegate {

/// Is this a sanitizer's build? It takes several times as long for each step, and looks for other
/// faults than the release: a sample of what is tried very often will do.
#ifdef PULSEGATE_SANITIZED
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

}  // namespace pulsegate
