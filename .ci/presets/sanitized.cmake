# What the sanitizers' builds have in common: asserts on, and compiled in half the time. Clang takes a third of g++'s time for
# AddressSanitizer and two thirds for ThreadSanitizer, and the tests run in half the time. Its warnings are errors, as g++'s are
# in the release.
find_program(CLANG NAMES clang++-16 clang++-19 clang++-18 clang++ REQUIRED)
set(CMAKE_CXX_COMPILER ${CLANG} CACHE FILEPATH "")
set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO -O0 CACHE STRING "")
set(PULSEGATE_WERROR ON CACHE BOOL "")
# LLVM's linker takes a fifth of the time of the usual one.
find_program(LLD NAMES ld.lld-16 ld.lld-19 ld.lld-18 ld.lld)
if(LLD)
    set(CMAKE_EXE_LINKER_FLAGS --ld-path=${LLD} CACHE STRING "")
endif()
