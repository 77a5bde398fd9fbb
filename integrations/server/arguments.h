// Arguments of the command line.
#ifndef TAKT_INTEGRATIONS_SERVER_ARGUMENTS_H_
#define TAKT_INTEGRATIONS_SERVER_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tool/command/report_files.h"
#include "tool/report/comparison.h"
#include "tool/run/load_workload.h"
#include "http_server.h"

namespace serving {

class Program;

// Arguments with the same meaning as in takt replay.
struct CommonArguments : takt::tool::ReplaySetup, takt::tool::ReportFiles {
  takt::tool::WorkloadSource workload;
  std::vector<std::string> policies, estimates;
};

struct Arguments {
  CommonArguments common;
  bool trace = false;  // play common.workload
  std::size_t threads = 2;
  std::int32_t kv_blocks = 1024;
  std::int32_t block_tokens = 16;
  std::int32_t cpu_blocks = 0;
  bool overlap = false;
  bool awake = false;
  std::string log, steps, tokens;
  bool processor_time = false;

  bool serve = false;
  HttpOptions http;
  double drain_s = 10;
  std::string requests;  // path
  bool faults = false;  // faults on request
  std::string fault;    // see ParseFaults
};

// Returns the arguments, or the exit code if help or an error was printed.
std::variant<Arguments, int> ParseArguments(Program& program, int argc, const char* const* argv);

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_ARGUMENTS_H_
