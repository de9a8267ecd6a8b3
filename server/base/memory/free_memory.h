#pragma once

#include <string>

namespace pulsegate {

/// Empties the text and frees its memory. `text = {}` keeps the memory: it assigns an empty list of
/// characters.
inline void free_memory(std::string& text) { std::string().swap(text); }

}  // namespace pulsegate
