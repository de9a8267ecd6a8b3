// Throws bytes at the WebSocket framing and at the PROXY protocol for as long as one likes:
//
//     .ci/build build-asan -C asan fuzzers
//     build-asan/tests/framing_fuzz -max_total_time=60 [CORPUS_FOLDER]

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/support/framing_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (const char* promise = pulsegate::broken_framing_promise({data, size}, 1'000)) {
        std::fprintf(stderr, "does not hold: %s\n", promise);
        std::abort();
    }
    return 0;
}
