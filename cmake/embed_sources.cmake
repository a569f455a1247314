# tilewright_embed_sources(target file...): compiles the text of kernel sources into `target`, named by their path from the
# repository's root. Defines tilewright::embeddedSources().
function(tilewright_embed_sources target)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/embedded_sources.cpp)
  set(paths "")
  foreach(file IN LISTS ARGN)
    list(APPEND paths ${PROJECT_SOURCE_DIR}/${file})
  endforeach()
  string(REPLACE ";" "," joined "${ARGN}")
  add_custom_command(
    OUTPUT ${generated}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${generated} -DROOT=${PROJECT_SOURCE_DIR} -DFILES=${joined} -P
            ${PROJECT_SOURCE_DIR}/cmake/embed_sources_script.cmake
    DEPENDS ${paths} ${PROJECT_SOURCE_DIR}/cmake/embed_sources_script.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${generated})
endfunction()
