# Install rules and the package files of find_package(tilewright), which defines
#   tilewright::tilewright   libtilewright.so, the runtime; include <tilewright/tilewright.h> or <tilewright/tilewright.hpp>
#   tilewright::jit          libtilewright_jit.so, the compilers (needed only to compile kernels)
# Component `library` is what programs link, `program` the command line.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS tilewright_shared tilewright_jit_shared EXPORT tilewright_targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT library)
install(DIRECTORY include/tilewright DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tilewright)
install(EXPORT tilewright_targets FILE tilewright-config.cmake NAMESPACE tilewright:: DESTINATION ${package}
        COMPONENT library)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tilewright-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tilewright-config-version.cmake DESTINATION ${package} COMPONENT library)

# LLVM usually lies beside the loader's path.
set_target_properties(tilewright PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS tilewright RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT library OPTIONAL)
