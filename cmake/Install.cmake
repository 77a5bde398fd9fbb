# Three ways in: find_package(takt), add_subdirectory, pkg-config. tests/package takes each of them.
include(CMakePackageConfigHelpers)
set(_takt_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/takt)

install(TARGETS takt_core takt EXPORT taktTargets
  ARCHIVE COMPONENT takt_development LIBRARY COMPONENT takt_development)
if(TARGET takt_cli)
  install(TARGETS takt_cli RUNTIME COMPONENT takt_tool)
endif()
install(DIRECTORY include/takt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT takt_development)
install(EXPORT taktTargets NAMESPACE takt:: DESTINATION ${_takt_cmake_dir} COMPONENT takt_development)

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
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/taktConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/taktConfigVersion.cmake
  DESTINATION ${_takt_cmake_dir} COMPONENT takt_development)

# A static library leaves its private libraries to whoever links it.
set(_takt_static_requires "")
if(NOT BUILD_SHARED_LIBS)
  set(_takt_static_requires " fmt zlib${_takt_solver_requires}")
endif()
file(RELATIVE_PATH _takt_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)  # so that the tree can be moved
string(REGEX REPLACE "/$" "" _takt_pc_prefix ${_takt_pc_prefix})
configure_file(cmake/takt.pc.in takt.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/takt.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT takt_development)
