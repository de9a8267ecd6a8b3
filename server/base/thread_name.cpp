#include "server/base/thread_name.h"

#include <pthread.h>

#include <cstddef>

namespace pulsegate {

void name_thread(const std::string& name) {
    constexpr std::size_t most = 15;
    ::pthread_setname_np(::pthread_self(), name.substr(0, most).c_str());
}

}  // namespace pulsegate
