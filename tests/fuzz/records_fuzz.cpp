// Throws TLS records at the gateway's record layer, good and bad ones, for as long as one likes:
//
//     .ci/build build-asan -C asan fuzzers
//     build-asan/tests/records_fuzz -max_total_time=60 [CORPUS_FOLDER]
//
// At the end it says how many records these were. With `-len_control=0 -max_len=2048`, inputs are
// long at once. An input then has some 80 records in 8 connections, and a second of CPU time is
// enough for 10,000 records.

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
