# AddressSanitizer and UndefinedBehaviorSanitizer: cmake -C .ci/presets/asan.cmake -S . -B build-asan
include(${CMAKE_CURRENT_LIST_DIR}/sanitized.cmake)
set(PULSEGATE_SANITIZE address,undefined CACHE STRING "")
