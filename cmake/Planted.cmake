# takt_tree: the folder of include/ and src/. With TAKT_PLANTED it is a copy in which scripts/plant has planted the bugs
# of tests/planted_bugs.txt; each run selects one (tests/planted.h). A change of the table or of a source reconfigures.
# Unchanged files of the copy are not rewritten.
set(takt_tree ${PROJECT_SOURCE_DIR})
if(NOT TAKT_PLANTED)
  return()
endif()

set(takt_tree ${PROJECT_BINARY_DIR}/planted)
set(_takt_bugs ${PROJECT_BINARY_DIR}/planted_bugs)  # files with a bug
file(REMOVE_RECURSE ${_takt_bugs})
execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/plant ${PROJECT_SOURCE_DIR}/tests/planted_bugs.txt ${_takt_bugs}
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

file(GLOB_RECURSE _takt_files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include/*
  ${PROJECT_SOURCE_DIR}/src/*)
foreach(_takt_file IN LISTS _takt_files)
  set(_takt_from ${PROJECT_SOURCE_DIR}/${_takt_file})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_takt_from})
  if(EXISTS ${_takt_bugs}/${_takt_file})
    set(_takt_from ${_takt_bugs}/${_takt_file})
  endif()
  get_filename_component(_takt_folder ${takt_tree}/${_takt_file} DIRECTORY)
  file(MAKE_DIRECTORY ${_takt_folder})
  file(COPY_FILE ${_takt_from} ${takt_tree}/${_takt_file} ONLY_IF_DIFFERENT)
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/scripts/plant
  ${PROJECT_SOURCE_DIR}/tests/planted_bugs.txt)

file(GLOB_RECURSE _takt_gone RELATIVE ${takt_tree} ${takt_tree}/*)
list(REMOVE_ITEM _takt_gone ${_takt_files})
foreach(_takt_file IN LISTS _takt_gone)
  file(REMOVE ${takt_tree}/${_takt_file})
endforeach()
