#pragma once

#include <string>

namespace pulsegate {

/// Names the calling thread for `top -H`, perf and debuggers, which show the first 15 characters.
void name_thread(const std::string& name);

}  // namespace pulsegate
