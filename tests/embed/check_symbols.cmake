# cmake -DOBJDUMP= -DFILES=a|b -P check_symbols.cmake
# Reads the symbol tables of objects and archives. Faults are undefined symbols of a clock, randomness, output, the
# environment, threads or a throw, and objects of namespace takt in a writable section.
#
# Inlined code of others is accepted. Two pieces of it contain a throw: nlohmann::json and std::visit, for a variant
# without a value. takt calls only forms of nlohmann::json that do not throw. An object with one of them may use
# __cxa_throw. tests/structure checks that takt's own sources have no throw, try or catch. Standard containers catch and
# rethrow if a copy throws. std::ios_base::Init comes with <iostream>, which Abseil's headers include. tests/structure
# checks that takt's do not.
set(clock "clock_gettime|gettimeofday|time|std::chrono::.*::now\\(\\)")
set(chance "std::random_device::.*|rand|srand|random|getrandom|getentropy")
set(output "std::(cout|cerr|clog|wcout|wcerr)|(__)?v?f?printf(_chk)?|puts|fputs|putchar|perror|syslog")
set(environment "(secure_)?getenv|setenv|putenv|setlocale")
set(thread "pthread_create|std::thread::_M_start_thread.*|std::this_thread::.*|sched_yield")
set(throw "__cxa_throw")
set(others_throw "nlohmann::|typeinfo for std::bad_variant_access$")
# Registrations that a host makes before anything else: RegisterPolicy and the like.
set(registered ".*takt::(internal::(Policies|Placements|Pauses|Retentions|Gates)\\(\\)::policies|RegisterRivals\\(\\)::registered)")
set(kinds clock chance output environment thread)

string(REPLACE "|" ";" FILES "${FILES}")
execute_process(COMMAND ${OBJDUMP} --syms --demangle ${FILES} OUTPUT_VARIABLE table COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "[][;]" " " table "${table}")  # these would break a CMake list
string(REPLACE "\n" ";" lines "${table}")

set(faults "")
set(objects 0)
macro(fault kind symbol)
  string(APPEND faults "\n  breaks the oath: ${kind}: ${symbol} in ${object}")
endmacro()
macro(end_object)
  if(throws AND NOT has_others_throw)
    fault(throw "${throws}")
  endif()
  set(throws "")
  set(has_others_throw FALSE)
endmacro()

foreach(line IN LISTS lines)
  if(line MATCHES "^(.+): +file format")
    end_object()
    set(object ${CMAKE_MATCH_1})
    math(EXPR objects "${objects} + 1")
  elseif(line MATCHES "\\*UND\\*\t[0-9a-f]+ +(.*)$")
    set(symbol ${CMAKE_MATCH_1})
    if(symbol MATCHES "^(${throw})$")
      string(APPEND throws " ${symbol}")
    endif()
    foreach(kind IN LISTS kinds)
      if(symbol MATCHES "^(${${kind}})$")
        fault(${kind} "${symbol}")
      endif()
    endforeach()
  elseif(line MATCHES "^[0-9a-f]+ ......O \\.t?(data|bss)[^\t]*\t[0-9a-f]+ +(.*)$")
    set(symbol ${CMAKE_MATCH_2})
    if(symbol MATCHES "takt::" AND NOT line MATCHES "\\.data\\.rel\\.ro" AND NOT symbol MATCHES "^${registered}$")
      fault(static "${symbol}")
    endif()
  endif()
  if(line MATCHES "${others_throw}")
    set(has_others_throw TRUE)
  endif()
endforeach()
end_object()

if(objects EQUAL 0)
  message(FATAL_ERROR "no object read")
elseif(faults)
  message(FATAL_ERROR "${faults}")
endif()
message(STATUS "${objects} objects keep the oath")
