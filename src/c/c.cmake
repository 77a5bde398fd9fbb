# takt_c, the C interface: a shared library that exports only takt_*. Its dependencies are linked in, so that they
# cannot clash with other versions in the host's process.
add_library(takt_c SHARED
  c/cascade.cc
  c/common.cc
  c/events.cc
  c/ids.cc
  c/learner.cc
  c/policy.cc
  c/predictor.cc
  c/queue.cc
  c/inbox.cc
  c/router.cc
  c/scheduler.cc)
add_library(takt::c ALIAS takt_c)
set_target_properties(takt_c PROPERTIES
  CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON EXPORT_NAME c
  VERSION 0.${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} SOVERSION 0
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib
  LINK_DEPENDS "$<TARGET_FILE:takt>;$<TARGET_FILE:takt_learning>;$<TARGET_FILE:takt_rivals>;${CMAKE_CURRENT_SOURCE_DIR}/c/exports.map")
target_compile_features(takt_c PRIVATE cxx_std_20)
target_compile_options(takt_c PRIVATE "SHELL:-include ${CMAKE_CURRENT_SOURCE_DIR}/saturating_times.h")
target_compile_definitions(takt_c PRIVATE TAKT_COMPILED=1 TAKT_C_BUILD=1)
target_include_directories(takt_c PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} PUBLIC
  $<BUILD_INTERFACE:${takt_tree}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_include_directories(takt_c SYSTEM PRIVATE $<TARGET_PROPERTY:absl::status,INTERFACE_INCLUDE_DIRECTORIES>)
takt_absl_inside(absl_inside)
takt_inside(zlib_inside ZLIB::ZLIB)
target_link_libraries(takt_c PRIVATE $<BUILD_INTERFACE:takt_flags>
  $<TARGET_FILE:takt_learning> $<TARGET_FILE:takt_rivals> $<TARGET_FILE:takt> -Wl,--start-group ${absl_inside} ${zlib_inside} -Wl,--end-group)
target_link_options(takt_c PRIVATE -Wl,--no-undefined
  -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/c/exports.map)
if(TAKT_SANITIZE)  # their runtime is the program's
  target_link_options(takt_c PRIVATE -Wl,-z,undefs)
endif()
add_dependencies(takt_c takt takt_learning takt_rivals)

# The same library as one archive, for hosts that link statically (Go's). Its dependencies are included and hidden,
# except for unique statics of templates. Hosts add the C++ runtime: -lstdc++ -lm. With TAKT_C_RUNTIME, the archive
# includes the C++ runtime, and hosts add only -lm.
find_program(TAKT_OBJCOPY NAMES ${CMAKE_OBJCOPY} objcopy llvm-objcopy-19 llvm-objcopy)
if(TAKT_OBJCOPY AND NOT APPLE AND NOT TAKT_SANITIZE AND NOT TAKT_COVERAGE)
  set(archive ${PROJECT_BINARY_DIR}/lib/libtakt_c.a)
  takt_inside(archives absl::status absl::statusor ZLIB::ZLIB)
  list(FILTER archives EXCLUDE REGEX "^-|:-")  # flags of whoever links a program
  if(TAKT_C_RUNTIME)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.a
      OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    list(APPEND archives ${runtime})
  endif()
  add_custom_command(OUTPUT ${archive}
    COMMAND ${CMAKE_LINKER} -r --force-group-allocation -o takt_c_inside.o $<TARGET_OBJECTS:takt_c>
      --start-group $<TARGET_FILE:takt_learning> $<TARGET_FILE:takt_rivals> $<TARGET_FILE:takt> ${archives} --end-group
    COMMAND ${TAKT_OBJCOPY} --wildcard "--keep-global-symbol=takt_*" takt_c_inside.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
    COMMAND ${CMAKE_AR} qcs ${archive} takt_c_inside.o
    DEPENDS takt_c takt_learning takt_rivals takt $<TARGET_OBJECTS:takt_c>
    COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(takt_c_archive ALL DEPENDS ${archive})
endif()
