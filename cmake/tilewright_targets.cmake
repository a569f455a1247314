# What every target of the project shares: the language, warnings, sanitizers and the include root.
add_library(tilewright_options INTERFACE)
target_compile_features(tilewright_options INTERFACE cxx_std_23)
target_include_directories(tilewright_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
target_compile_options(tilewright_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-unused-parameter
                                                    -Wno-missing-field-initializers>)
if(TILEWRIGHT_WERROR)
  target_compile_options(tilewright_options INTERFACE -Werror)
endif()
if(TILEWRIGHT_SANITIZE)
  target_compile_options(tilewright_options INTERFACE -fsanitize=${TILEWRIGHT_SANITIZE} -fno-omit-frame-pointer
                                                      -fno-sanitize-recover=undefined)
  target_link_options(tilewright_options INTERFACE -fsanitize=${TILEWRIGHT_SANITIZE})
endif()

# Compile through ccache where it is installed and nothing else was asked for.
find_program(TILEWRIGHT_CCACHE ccache)
mark_as_advanced(TILEWRIGHT_CCACHE)
if(TILEWRIGHT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TILEWRIGHT_CCACHE})
endif()

# tilewright_library(name sources...): a static, position-independent library of one top-level folder.
function(tilewright_library name)
  add_library(${name} STATIC ${ARGN})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${name} PUBLIC tilewright_options)
endfunction()

# tilewright_shared_library(target exports): what libtilewright.so and libtilewright_jit.so share: version, public headers,
# and nothing exported but what the version script cmake/<exports> names.
function(tilewright_shared_library target exports)
  set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                                             CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                                             INSTALL_RPATH_USE_LINK_PATH ON)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:include>)
  target_link_options(${target} PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/${exports} -Wl,--no-undefined)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/${exports})
endfunction()
