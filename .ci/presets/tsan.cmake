# ThreadSanitizer: cmake -C .ci/presets/tsan.cmake -S . -B build-tsan
include(${CMAKE_CURRENT_LIST_DIR}/sanitized.cmake)
set(PULSEGATE_SANITIZE thread CACHE STRING "")
