#include "server/base/text/client_id.h"

#include <fmt/format.h>

#include <random>

namespace pulsegate {

std::string random_client_id() {
    thread_local std::mt19937_64 random{std::random_device{}()};
    return fmt::format("auto-{:016x}", random());
}

}  // namespace pulsegate
