# cmake -DONE= -DOTHER= -DLOG= -P check_same_plans.cmake
# Checks that both builds of same_plans print the same and replay each other's logs. Prints "skipped" if this processor
# lacks an instruction.
execute_process(COMMAND ${ONE} OUTPUT_VARIABLE of_one COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${OTHER} OUTPUT_VARIABLE of_other RESULT_VARIABLE code)
if(code EQUAL 77)
  message(STATUS "${of_other}")
elseif(NOT code EQUAL 0 OR NOT of_one STREQUAL of_other)
  message(FATAL_ERROR "plans differ:\n${of_one}\n${of_other}")
else()
  execute_process(COMMAND ${ONE} --log ${LOG} COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${OTHER} --replay ${LOG} COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${OTHER} --log ${LOG} COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${ONE} --replay ${LOG} COMMAND_ERROR_IS_FATAL ANY)
endif()
