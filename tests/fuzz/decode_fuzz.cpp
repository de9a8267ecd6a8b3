// Throws bytes at the codec for as long as one likes:
//
//     .ci/build build-asan -C asan fuzzers
//     build-asan/tests/decode_fuzz -max_total_time=60 [CORPUS_FOLDER]
//
// Without a corpus of its own it begins with the vectors of the tests. The first byte of an input
// chooses version and sender, the rest is the stream.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/codec_check.h"
#include "tests/support/vectors.h"
#include "tests/support/wire.h"

namespace {

using namespace pulsegate;

constexpr std::uint8_t is_v5 = 1;
constexpr std::uint8_t from_server = 2;

char choice(Version version, Sender sender) {
    return static_cast<char>((version == Version::v5_0 ? is_v5 : 0) |
                             (sender == Sender::server ? from_server : 0));
}

std::string seed_folder() {
    const auto folder = std::filesystem::temp_directory_path() / "pulsegate-decode-fuzz";
    std::filesystem::create_directories(folder);
    int count = 0;
    const auto add = [&](const auto& vector) {
        std::ofstream file(folder / ("seed-" + std::to_string(count++)), std::ios::binary);
        file << choice(vector.version, vector.sender) << wire(vector.notation);
    };
    for (const ValidVector& vector : valid_vectors()) add(vector);
    for (const BadVector& vector : bad_vectors()) add(vector);
    return folder.string();
}

bool has_corpus_or_file(int argc, char** argv) {
    for (int i = 1; i < argc; ++i)
        if (argv[i][0] != '-') return true;
    return false;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
    if (has_corpus_or_file(*argc, *argv)) return 0;
    static std::string folder = seed_folder();
    static std::vector<char*> arguments(*argv, *argv + *argc);
    arguments.push_back(folder.data());
    arguments.push_back(nullptr);
    ++*argc;
    *argv = arguments.data();
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const Version version = data[0] & is_v5 ? Version::v5_0 : Version::v3_1_1;
    const Sender sender = data[0] & from_server ? Sender::server : Sender::client;
    if (const char* promise = broken_promise(Bytes(data + 1, size - 1), version, sender)) {
        std::fprintf(stderr, "does not hold: %s\n", promise);
        std::abort();
    }
    return 0;
}
