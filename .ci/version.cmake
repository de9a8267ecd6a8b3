# cmake -D RELEASE=0.1.0 -D SOURCE=… -D OUTPUT=version.cpp -P version.cmake: writes the program's version, if it has changed: that
# of the release, and the commit unless the commit has the release's tag, as in 0.1.0+1a2b3c4, and .changed if files were changed.
set(version ${RELEASE})
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
    execute_process(COMMAND ${GIT} describe --always --dirty=.changed --abbrev=7 --exclude=* WORKING_DIRECTORY ${SOURCE}
        OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND ${GIT} describe --exact-match --dirty=.changed --match=v${RELEASE} WORKING_DIRECTORY ${SOURCE}
        OUTPUT_VARIABLE tag OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(commit AND NOT tag STREQUAL v${RELEASE})
        set(version ${RELEASE}+${commit})
    endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
#include "server/base/version.h"

namespace pulsegate {

const char* program_version() { return "@version@"; }

}  // namespace pulsegate
]] @ONLY)
