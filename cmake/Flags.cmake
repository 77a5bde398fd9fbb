# Flags of takt's own code only; consumers see none of them.
add_library(takt_flags INTERFACE)
target_compile_options(takt_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wnon-virtual-dtor
  -Wdouble-promotion
  -ffp-contract=off  # same sums, hence same plans, on every compiler
  $<$<BOOL:${TAKT_WERROR}>:-Werror>
  # clang reports the temporary buffer inside libstdc++ 12's std::stable_sort
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
  # g++ 12 reports -Wrestrict on "a" + std::to_string(i) at -O3
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)

if(TAKT_SANITIZE)
  string(REPLACE ";" "," _takt_sanitize "${TAKT_SANITIZE}")
  add_compile_options(-fsanitize=${_takt_sanitize} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)  # bounds of spans and vectors, which sanitizers do not see
  # g++ 12 takes <regex> for uninitialised once it is instrumented
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
