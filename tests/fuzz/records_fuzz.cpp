// Throws TLS records at the gateway's record layer, good and bad ones, for as long as one likes:
//
//     .ci/build build-asan -C asan fuzzers
//     build-asan/tests/records_fuzz -max_total_time=60 [CORPUS_FOLDER]
//
// At the end it says how many records these were. For very many, give it long inputs at once, and
// let AddressSanitizer keep less freed memory: `-len_control=0 -max_len=4096 -entropic=0`, with
// ASAN_OPTIONS=quarantine_size_mb=16:malloc_context_size=4. Compiled with -O1, it then reads 5,000
// records in a second of CPU time.

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/support/records_check.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
    return std::atexit([] {
        std::fprintf(stderr, "%llu records\n",
                     static_cast<unsigned long long>(pulsegate::checked_records()));
    });
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (const char* promise = pulsegate::broken_records_promise({data, size})) {
        std::fprintf(stderr, "does not hold: %s\n", promise);
        std::abort();
    }
    return 0;
}
