# Installs for find_package(takt), add_subdirectory and pkg-config. tests/package tests each of them.
include(CMakePackageConfigHelpers)
set(_takt_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/takt)

# One component per library, so that a user of the scheduler needs no solver.
set(_takt_targets_core takt_core takt)
set(_takt_targets_rivals takt_rivals)
set(_takt_targets_learning takt_learning)
set(_takt_targets_sim takt_sim)
set(_takt_targets_planning takt_planning)
set(_takt_targets_tool takt_tool_run takt_tool_report takt_tool_parts takt_tool_commands)
set(_takt_targets_systems takt_systems)
set(_takt_parts core rivals learning sim planning systems)
if(TARGET takt_cli)
  list(APPEND _takt_parts tool)
endif()
foreach(_part IN LISTS _takt_parts)
  install(TARGETS ${_takt_targets_${_part}} EXPORT takt_${_part}
    ARCHIVE COMPONENT takt_development LIBRARY COMPONENT takt_development)
  install(EXPORT takt_${_part} FILE takt_${_part}.cmake NAMESPACE takt:: DESTINATION ${_takt_cmake_dir}
    COMPONENT takt_development)
endforeach()
if(TARGET takt_c)  # for hosts in other languages, which need nothing else of takt
  install(TARGETS takt_c EXPORT takt_c LIBRARY COMPONENT takt_c NAMELINK_COMPONENT takt_c_development)
  install(EXPORT takt_c FILE takt_c.cmake NAMESPACE takt:: DESTINATION ${_takt_cmake_dir} COMPONENT takt_c_development)
  install(FILES ${PROJECT_BINARY_DIR}/lib/libtakt_c.a DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT takt_c_development
    OPTIONAL)
  install(FILES include/takt/c/takt.h include/takt/c/model.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/takt/c
    COMPONENT takt_c_development)
endif()
if(TARGET takt_cli)
  install(TARGETS takt_cli RUNTIME COMPONENT takt_tool)
  install(TARGETS takt_plan RUNTIME COMPONENT takt_tool OPTIONAL)  # takt names it if it is missing
  if(TARGET takt_observe)
    install(TARGETS takt_observe RUNTIME COMPONENT takt_tool OPTIONAL)
  endif()
  # Man pages and completions, which scripts/packages makes with the built tool.
  install(DIRECTORY ${PROJECT_BINARY_DIR}/shell/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT takt_tool OPTIONAL)
endif()
install(DIRECTORY include/takt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT takt_development)

set(_takt_with_cbc FALSE)
set(_takt_with_highs FALSE)
set(_takt_solver_requires "")
if(TARGET PkgConfig::takt_cbc)
  set(_takt_with_cbc TRUE)
  string(APPEND _takt_solver_requires " cbc osi-clp")
endif()
if(TARGET highs::highs)
  set(_takt_with_highs TRUE)
  string(APPEND _takt_solver_requires " highs")
endif()
configure_package_config_file(cmake/taktConfig.cmake.in taktConfig.cmake INSTALL_DESTINATION ${_takt_cmake_dir})
write_basic_package_version_file(taktConfigVersion.cmake COMPATIBILITY SameMinorVersion)
foreach(_component takt_development takt_c_development)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/taktConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/taktConfigVersion.cmake
    DESTINATION ${_takt_cmake_dir} COMPONENT ${_component})
endforeach()

# pkg-config files: takt_core, takt, takt_rivals, takt_learning, takt_sim, takt_planning, takt_systems
# and takt_c, like the targets.
file(RELATIVE_PATH _takt_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)  # relative, so that the tree can be moved
string(REGEX REPLACE "/$" "" _takt_pc_prefix ${_takt_pc_prefix})
# takt_pc(NAME description LIBS flags CFLAGS flags REQUIRES packages PRIVATE packages COMPONENT component). The users of
# an archive link its private dependencies, with and without --static.
function(takt_pc name description)
  cmake_parse_arguments(_pc "" "LIBS;REQUIRES;PRIVATE;CFLAGS;COMPONENT" "" ${ARGN})
  if(NOT _pc_COMPONENT)
    set(_pc_COMPONENT takt_development)
  endif()
  if(NOT BUILD_SHARED_LIBS)
    string(APPEND _pc_REQUIRES " ${_pc_PRIVATE}")
    set(_pc_PRIVATE "")
  endif()
  configure_file(cmake/takt.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${_pc_COMPONENT})
endfunction()
takt_pc(takt_core "${PROJECT_DESCRIPTION}: the headers" REQUIRES "absl_status absl_statusor")
takt_pc(takt "${PROJECT_DESCRIPTION}" LIBS -ltakt CFLAGS -DTAKT_COMPILED=1 REQUIRES takt_core PRIVATE zlib)
takt_pc(takt_rivals "takt: rules of other systems" LIBS -ltakt_rivals REQUIRES takt)
takt_pc(takt_learning "takt: predictors" LIBS -ltakt_learning REQUIRES takt PRIVATE zlib)
takt_pc(takt_sim "takt: workloads and the simulator" LIBS -ltakt_sim REQUIRES takt_learning PRIVATE "fmt zlib")
takt_pc(takt_planning "takt: plans of clusters" LIBS -ltakt_planning REQUIRES takt_sim
  PRIVATE "fmt${_takt_solver_requires}")
takt_pc(takt_systems "takt: systems of papers" LIBS -ltakt_systems REQUIRES takt_planning PRIVATE "fmt zlib")
if(TARGET takt_c)
  takt_pc(takt_c "${PROJECT_DESCRIPTION}: the C interface" LIBS -ltakt_c COMPONENT takt_c_development)
endif()

# Documentation for host authors: the pages, and the examples with a project that builds them.
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT takt_documentation)
install(FILES README.md LICENSE CHANGELOG.md CONTRIBUTING.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR}
  COMPONENT takt_documentation)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT takt_documentation)
# Other files to which these pages link.
file(GLOB_RECURSE _takt_pages RELATIVE ${PROJECT_SOURCE_DIR} docs/*.md examples/*.md)
list(APPEND _takt_pages README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md)
set(_takt_linked "")
while(_takt_pages)
  list(POP_FRONT _takt_pages _page)
  cmake_path(GET _page PARENT_PATH _folder)
  file(READ ${_page} _text)
  string(REGEX REPLACE "[][;]" "|" _text "${_text}")  # these characters have a meaning in lists
  string(REGEX MATCHALL "\\|\\([^)#:| ]+" _links "${_text}")
  foreach(_link ${_links})
    string(SUBSTRING "${_link}" 2 -1 _link)
    cmake_path(SET _to NORMALIZE "./${_folder}/${_link}")
    set(_source ${PROJECT_SOURCE_DIR}/${_to})
    if(_to MATCHES "^(docs|examples)/|^[A-Z]+(\\.md)?$" OR _to IN_LIST _takt_linked
        OR IS_DIRECTORY ${_source} OR NOT EXISTS ${_source})
      continue()
    endif()
    list(APPEND _takt_linked ${_to})
    cmake_path(GET _to PARENT_PATH _to_folder)
    install(FILES ${_to} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${_to_folder} COMPONENT takt_documentation)
    if(_to MATCHES "\\.md$")
      list(APPEND _takt_pages ${_to})
    endif()
  endforeach()
endwhile()
