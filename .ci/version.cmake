# cmake -D RELEASE=0.1.0 -D SOURCE=… -D OUTPUT=version.cpp -D PACKAGE=package_version.cmake -P version.cmake: writes the program's
# version, if it has changed: that of the release, and the commit unless the commit has the release's tag, as in 0.1.0+1a2b3c4, and
# .changed if files were changed. The version of the package is that of the release, or 0.1.0~20261128.192000.1a2b3c4 before the
# release, and 0.1.0+20261128.192000.1a2b3c4 after it: apt upgrades only to a higher version, so a later commit must have one.
set(version ${RELEASE})
set(package ${RELEASE})
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
    execute_process(COMMAND ${GIT} describe --always --dirty=.changed --abbrev=7 --exclude=* WORKING_DIRECTORY ${SOURCE}
        OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND ${GIT} describe --exact-match --dirty=.changed --match=v${RELEASE} WORKING_DIRECTORY ${SOURCE}
        OUTPUT_VARIABLE tag OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(commit AND NOT tag STREQUAL v${RELEASE})
        set(version ${RELEASE}+${commit})
        execute_process(COMMAND ${CMAKE_COMMAND} -E env TZ=UTC
            ${GIT} log -1 --format=%cd --date=format-local:%Y%m%d.%H%M%S WORKING_DIRECTORY ${SOURCE}
            OUTPUT_VARIABLE time OUTPUT_STRIP_TRAILING_WHITESPACE)
        execute_process(COMMAND ${GIT} describe --match=v${RELEASE} WORKING_DIRECTORY ${SOURCE}
            RESULT_VARIABLE is_before OUTPUT_QUIET ERROR_QUIET)
        if(is_before)
            set(package ${RELEASE}~${time}.${commit})
        else()
            set(package ${RELEASE}+${time}.${commit})
        endif()
    endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
#include "server/base/version.h"

namespace pulsegate {

const char* program_version() { return "@version@"; }

}  // namespace pulsegate
]] @ONLY)
file(CONFIGURE OUTPUT ${PACKAGE} CONTENT [[set(CPACK_DEBIAN_PACKAGE_VERSION "@package@")
# The instructions name the package as pulsegate_*.deb, so there must be only one.
file(GLOB earlier "${CPACK_PACKAGE_DIRECTORY}/pulsegate_*.deb" "${CPACK_PACKAGE_DIRECTORY}/pulsegate-dbgsym_*.ddeb")
if(earlier)
    file(REMOVE ${earlier})
endif()
]] @ONLY)
