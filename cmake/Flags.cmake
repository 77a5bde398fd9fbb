# Flags of takt's own code; its users do not inherit them.
add_library(takt_flags INTERFACE)
target_compile_options(takt_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wnon-virtual-dtor
  -Wdouble-promotion
  -ffp-contract=off  # same sums, so same plans, on every compiler
  $<$<BOOL:${TAKT_WERROR}>:-Werror>
  # clang warns about the temporary buffer in std::stable_sort of libstdc++ 12
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
  # g++ 12 warns of -Wrestrict for "a" + std::to_string(i) at -O3
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)

if(TAKT_SANITIZE)
  string(REPLACE ";" "," _takt_sanitize "${TAKT_SANITIZE}")
  add_compile_options(-fsanitize=${_takt_sanitize} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)  # checks bounds of spans and vectors, which sanitizers miss
  # instrumented, g++ 12 reports <regex> as uninitialised
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  add_link_options(-fsanitize=${_takt_sanitize})
endif()
if(TAKT_PLANTED)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ${PROJECT_SOURCE_DIR}/tests/planted.h>")
endif()
if(TAKT_COVERAGE)
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()
