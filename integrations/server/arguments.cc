#include "arguments.h"

#include <cstdio>
#include <utility>

#include "CLI/CLI.hpp"
#include "tool/run/exit_code.h"
#include "fmt/format.h"
#include "program.h"
#include "tool/command/options.h"
#include "takt/version.h"

namespace serving {
namespace {

using takt::tool::Group;
using takt::tool::Positive;
using takt::tool::Whole;

void AddScheduling(Group group, bool traces, Arguments& to) {
  group.Add("--token-budget", to.common.token_budget, "N", "limit a step to N tokens", Whole(1, 1 << 20));
  group.Add("--max-seqs", to.common.max_seqs, "N", "limit the running requests to N", Whole(1, 1 << 16));
  group.AddFlag("--prefix-cache", to.common.prefix_cache, "keep the KV of prompts for requests with the same prefix");
  group.Add("--policy", to.common.policies, "NAME",
            traces ? "rank requests by this policy [fcfs]; with --trace, repeat to compare; see 'takt policies'"
                   : "rank requests by this policy [fcfs]; see 'takt policies'");
  group.Add("--option", to.common.options, "K=V",
            "set an option of the scheduler or a policy: preempt=by_rank, preempt_action=out, pause=swap_all, "
            "chunk_tokens=64, ... (docs/reference/cli.md lists them)");
}

void AddTrace(CLI::App& app, Arguments& to) {
  Group group(app, "A trace");
  group.Add("--trace", to.common.workload.file, "FILE", "replay a trace, 'bundled', or a generator in real time")
      .Each([&to] { to.trace = true; });
  AddWorkloadSource(group, to.common.workload);
  group.Add("--estimates", to.common.estimates, "KIND",
            "estimate output lengths by oracle, noise:SIGMA, calibrated:SIGMA, class-mean or none [oracle]");
  const takt::tool::Flag scale =
      group.Add("--rate-scale", to.common.rate_scale, "X", "multiply the rate of arrivals by X", Positive());
  group
      .Add("--closed-loop", to.common.closed_loop, "N",
           "keep N workflows in flight: start one when another ends, and ignore arrival times", Whole(1, INT64_MAX))
      .Excludes({scale});
  group.Add("--horizon", to.common.horizon, "S", "end the run after S seconds, even if requests wait or run",
            Positive());
  group.Add("--think-cap", to.common.think_cap, "S",
            "with --closed-loop and --horizon: limit pauses between the requests of a workflow to S seconds",
            takt::tool::Share(1e9));
  group.AddFlag("--processor-time", to.processor_time,
                "advance the clock by processor time only, for a busy machine; needs --threads 1");
}

void AddServer(CLI::App& app, const char* port, Arguments& to) {
  Group group(app, "A server");
  group.Add(port, to.http.port, "PORT", "answer HTTP requests at this port; 0: any free port", Whole(0, 65535))
      .Each([&to] { to.serve = true; });
  group.Add("--host", to.http.host, "ADDRESS", "listen at this address");
  group.Add("--connections", to.http.connections, "N", "answer at most N requests at once", Whole(1, 2048));
  group.Add("--max-body", to.http.max_body, "BYTES", "limit a request body to BYTES", Whole(1, 1 << 30));
  group.AddFlag("!--no-session-headers", to.http.session_headers,
                "ignore headers that name the session of a coding agent");
  if (to.faults) {
    group.Add("--fault", to.fault, "K=V,...",
              "inject faults: shares of answers error, drop, stall, damage and slow; stall_s, slow_ms; seed");
  }
  group.Add("--requests", to.requests, "FILE",
            "write a line per ended request with its lengths and the engine's times");
  group.Add("--drain", to.drain_s, "S", "on shutdown, give running requests S more seconds", Positive());
}

void AddOutput(Group group, bool traces, Arguments& to) {
  if (traces) AddReports(group, to.common, to.common);
  group.Add("--steps", to.steps, "FILE", "write a line per step with its requests and times (one policy)");
  if (traces)
    group.Add("--tokens", to.tokens, "FILE",
              "with --trace: write a line per completed call with prompt, tool answers and output");
  group.Add("--log", to.log, "FILE", "write takt's log, for takt replay-log (one policy)");
}

}  // namespace

std::variant<Arguments, int> ParseArguments(Program& program, int argc, const char* const* argv) {
  Arguments arguments;
  arguments.http.program = program.name();
  arguments.common.workload.file.clear();
  arguments.common.token_budget = 256;
  arguments.common.max_seqs = 64;
  CLI::App app(program.help(), program.name());
  app.formatter(takt::tool::HelpFormat());
  app.set_version_flag("--version", fmt::format("{} of takt " TAKT_VERSION, program.name()));
  app.footer(program.examples());
  program.SetDefaults(arguments);
  const bool traces = !program.only_serves();
  if (traces) AddTrace(app, arguments);
  AddServer(app, traces ? "--serve" : "--port", arguments);
  program.AddModel({app, "Model"});
  if (traces)
    Group(app, "Engine").Add("--threads", arguments.threads, "N", "compute steps with N threads", Whole(1, 256));
  AddScheduling({app, "Engine"}, traces, arguments);
  program.AddEngine({app, "Engine"}, arguments);
  AddOutput({app, "Output (a file, or - for standard output)"}, traces, arguments);
  if (argc < 2) {
    std::fputs(app.help().c_str(), stderr);
    return takt::tool::kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error) == 0 ? takt::tool::kDone : takt::tool::kFailed;
    return takt::tool::ReportUsage(app, error);
  }
  return arguments;
}

}  // namespace serving
