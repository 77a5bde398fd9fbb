# cmake -DOBJDUMP= -DFILES=a|b -P check_contraction.cmake
# Fails if an object contains an instruction that multiplies and adds with one rounding, of x86, ARM64 or s390x. Objects
# compiled with such instructions and -ffp-contract=fast then show every product that lacks Rounded.
string(REPLACE "|" ";" FILES "${FILES}")
set(fused "v?fn?m(add|sub|addsub|subadd)[0-9a-z]*|fml[as]|m[as][de]br?|wfn?m[as][ds]b")
execute_process(COMMAND ${OBJDUMP} --disassemble --demangle --no-show-raw-insn ${FILES}
  COMMAND awk "/>:$/ { name = $0; ++functions } \
    $2 ~ /^(${fused})$/ { print \"  \" $2 \" in \" substr(name, index(name, \"<\")) } \
    END { print functions + 0 \" functions\" }"
  OUTPUT_VARIABLE found COMMAND_ERROR_IS_FATAL ANY)
if(found MATCHES "^[1-9][0-9]* functions")
  message(STATUS "${found}")
else()
  message(FATAL_ERROR "a multiplication and an addition are one instruction:\n${found}")
endif()
