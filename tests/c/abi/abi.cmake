# cmake -DHEADER= -DCOMPILER= -DPROCESSOR= -DABIDW= -DABIDIFF= -DSNAPSHOT= -DOUT= [-DPLANT=field|number] [-DRENEW=ON]
#   -P abi.cmake
# Compares the header with the snapshot. A library is made of the header alone, with empty functions. This compiles in
# a moment, with debug information in every tree. The test c/exports checks that takt's library has the same functions.
# The layout is the compiler's, since the library is compiled with this header.
cmake_policy(VERSION 3.25)
if(NOT ABIDW OR NOT ABIDIFF)
  message(STATUS "skipped: abidw and abidiff are not installed (Debian: abigail-tools)")
  return()
elseif(NOT PROCESSOR STREQUAL x86_64)
  message(STATUS "skipped: the snapshot is of x86_64")
  return()
endif()

file(READ ${HEADER} source)
cmake_path(GET HEADER PARENT_PATH folder)
file(READ ${folder}/model.h model)
string(REPLACE "#include \"takt/c/model.h\"" "${model}" source "${source}")
string(REGEX REPLACE " *//[^\n]*" "" source "${source}")
string(REPLACE ") TAKT_NOEXCEPT;" ") TAKT_NOEXCEPT { __builtin_trap(); }" source "${source}")
# Enums have no name, and no function takes them: each becomes the type of a variable, which is named by its first number.
string(REGEX REPLACE "enum {[ \n]*(TAKT_[A-Z0-9_]+)([^}]*)};" "enum of_\\1 { \\1\\2 } takt_enum_\\1;" source "${source}")
if(PLANT STREQUAL field)
  set(was "(  uint32_t lane;\n)(  int32_t tokens;\n)")
  set(becomes "\\2\\1")
elseif(PLANT STREQUAL number)
  set(was "TAKT_EVENT_DRAIN = 10")
  set(becomes "TAKT_EVENT_DRAIN = 11")
endif()
if(PLANT)
  string(REGEX REPLACE "${was}" "${becomes}" changed "${source}")
  if(changed STREQUAL source)
    message(FATAL_ERROR "nothing to plant")
  endif()
  set(source "${changed}")
endif()

set(made ${OUT}/abi_${PLANT})
file(WRITE ${made}.c "${source}")
execute_process(COMMAND ${COMPILER} -std=c11 -g -gdwarf-4 -w -fPIC -shared -o ${made}.so abi_${PLANT}.c
  WORKING_DIRECTORY ${OUT} COMMAND_ERROR_IS_FATAL ANY)
if(RENEW)
  execute_process(COMMAND ${ABIDW} --no-corpus-path --no-show-locs --no-comp-dir-path --no-elf-needed --no-parameter-names
    --no-write-default-sizes --type-id-style hash --out-file ${SNAPSHOT} ${made}.so COMMAND_ERROR_IS_FATAL ANY)
  return()
endif()
execute_process(COMMAND ${ABIDIFF} ${SNAPSHOT} ${made}.so RESULT_VARIABLE differs)
if(differs)
  message(FATAL_ERROR "takt.h is not what its snapshot says: docs/project/testing.md tells how to renew it")
endif()
message(STATUS "as the snapshot says")
