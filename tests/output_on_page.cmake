# Runs PROGRAM, and fails unless PAGE contains its output.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
file(READ ${PAGE} page)
string(FIND "${page}" "```\n${output}```\n" at)
if(at EQUAL -1)
  message(FATAL_ERROR "${PAGE} does not contain the output of ${PROGRAM}:\n${output}")
endif()
