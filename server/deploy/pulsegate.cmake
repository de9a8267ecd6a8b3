# What `cmake --install` puts where, and the Debian package that `cpack` makes of it.

include(GNUInstallDirs)
install(TARGETS pulsegate pulsegate-loadgen RUNTIME DESTINATION bin)
install(FILES server/deploy/pulsegate.service server/deploy/pulsegate.socket
    DESTINATION /usr/lib/systemd/system)
install(FILES server/deploy/pulsegate.conf DESTINATION /etc/pulsegate)
install(FILES server/deploy/pulsegate.logrotate DESTINATION /etc/logrotate.d RENAME pulsegate)
install(FILES server/deploy/60-pulsegate.conf DESTINATION /usr/lib/sysctl.d)
# In the folders that they have here, so that most links work.
install(FILES README.md DESTINATION share/doc/pulsegate)
install(FILES server/README.md server/accounts.md server/clients.md DESTINATION share/doc/pulsegate/server)
install(FILES server/http/operation/openapi.json DESTINATION share/doc/pulsegate/server/http/operation)
install(DIRECTORY server/docs DESTINATION share/doc/pulsegate/server FILES_MATCHING PATTERN "*.md")
install(FILES server/deploy/README.md server/deploy/alerts.yml server/deploy/grafana.json server/deploy/haproxy.cfg
    server/deploy/nginx.conf server/deploy/60-pulsegate.conf DESTINATION share/doc/pulsegate/server/deploy)
install(FILES loadgen/README.md DESTINATION share/doc/pulsegate/loadgen)

# installed_output(FILE FOLDER COMMAND...): installs what the command prints, as this file of the folder.
function(installed_output file folder)
    string(JOIN "\" \"" command ${ARGN})
    install(CODE "file(MAKE_DIRECTORY \"${CMAKE_BINARY_DIR}/installed\")
        execute_process(COMMAND \"${command}\" OUTPUT_FILE \"${CMAKE_BINARY_DIR}/installed/${file}\"
            COMMAND_ERROR_IS_FATAL ANY)")
    install(FILES ${CMAKE_BINARY_DIR}/installed/${file} DESTINATION ${folder})
endfunction()
installed_output(pulsegate share/bash-completion/completions $<TARGET_FILE:pulsegate> ctl completion)
foreach(page pulsegate.1 pulsegate-loadgen.1 pulsegate.conf.5)
    string(REGEX REPLACE ".*[.]" "" section ${page})
    installed_output(${page}.gz share/man/man${section} gzip -9nc ${CMAKE_CURRENT_LIST_DIR}/man/${page})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_BINARY_DIR}/package_version.cmake)  # of the commit that is packed
set(CPACK_PACKAGE_CONTACT "Pulsegate")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Chat gateway that speaks MQTT, and its load generator")
set(CPACK_STRIP_FILES OFF)  # the symbols go to a package of their own
set(CPACK_DEBIAN_DEBUGINFO_PACKAGE ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "passwd")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "logrotate, bash-completion")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    "${CMAKE_CURRENT_LIST_DIR}/debian/postinst;${CMAKE_CURRENT_LIST_DIR}/debian/prerm;${CMAKE_CURRENT_LIST_DIR}/debian/postrm;${CMAKE_CURRENT_LIST_DIR}/debian/conffiles")
include(CPack)
