#include "arguments.h"

#include <cstdio>
#include <utility>

#include "CLI/CLI.hpp"
#include "tool/run/exit_code.h"
#include "tool/command/options.h"
#include "takt/version.h"

namespace tiny {
namespace {

using takt::tool::Group;
using takt::tool::Positive;
using takt::tool::Whole;

constexpr const char* kHelp =
    R"(A transformer on this computer's processor that serves many requests at once; takt decides what each step runs.
Weights are random: what it says means nothing, how long it takes does.)";

constexpr const char* kExamples = R"(Examples
  A server, and a question:
    tiny_engine --serve 8000 --policy sjf
    curl localhost:8000/v1/completions -d '{"prompt": "Once", "max_tokens": 20, "stream": true}'
  A real trace, shortened to an eighth, under three policies:
    tiny_engine --trace azure_llm_2023_conv.csv.gz --limit 200 --length-scale 0.125 --rate-scale 4 \
      --policy fcfs --policy sjf --policy stjf
  What every step took, for a cost model, and a log that takt replays:
    tiny_engine --trace bundled --length-scale 0.1 --steps steps.jsonl --log run.log
    takt replay-log run.log

Exit code: 0 done, 1 failed, or requests were cut, 2 wrong usage, 130 a trace was interrupted (what had ended by
then is reported).)";

// kv_heads = heads / 2 in all of them.
const std::pair<const char*, ModelConfig> kSizes[] = {
    {"1M", {.layers = 6, .hidden = 128, .heads = 4, .kv_heads = 2, .ffn = 352, .vocab = 272}},
    {"3M", {.layers = 8, .hidden = 192, .heads = 6, .kv_heads = 3, .ffn = 512, .vocab = 272}},
    {"10M", {.layers = 9, .hidden = 320, .heads = 10, .kv_heads = 5, .ffn = 848, .vocab = 272}},
    {"30M", {.layers = 10, .hidden = 512, .heads = 8, .kv_heads = 4, .ffn = 1376, .vocab = 272}},
    {"60M", {.layers = 13, .hidden = 640, .heads = 10, .kv_heads = 5, .ffn = 1712, .vocab = 272}},
    {"100M", {.layers = 15, .hidden = 768, .heads = 12, .kv_heads = 6, .ffn = 2048, .vocab = 272}},
};

void AddModel(Group group, ModelArguments& to) {
  group.Add("--model", to.size, "SIZE", "parameters: 1M, 3M, 10M, 30M, 60M or 100M; weights are random");
  group.Add("--model-seed", to.seed, "N", "of the weights", Whole(0, INT64_MAX));
  group.Add("--max-context", to.max_context, "N", "longest prompt and output together, in tokens", Whole(1, 1 << 20));
  group.Add("--weights", to.weights, "FILE", "a model that was saved instead");
  group.Add("--save-weights", to.save_weights, "FILE", "save the model");
}

void AddEngine(Group group, Arguments& to) {
  group.Add("--threads", to.threads, "N", "that compute a step", Whole(1, 256));
  group.Add("--token-budget", to.common.token_budget, "N", "tokens that one step computes at most", Whole(1, 1 << 20));
  group.Add("--max-seqs", to.common.max_seqs, "N", "requests that run at once at most", Whole(1, 1 << 16));
  group.Add("--kv-blocks", to.kv_blocks, "N", "blocks of the KV cache", Whole(1, 1 << 24));
  group.Add("--block-tokens", to.block_tokens, "N", "tokens of a block", Whole(1, 4096));
  group.Add("--cpu-blocks", to.cpu_blocks, "N", "blocks of the memory that KV is swapped out to", Whole(0, 1 << 24));
  group.AddFlag("--prefix-cache", to.common.prefix_cache, "keep the KV of prompts for others that begin alike");
  group.Add("--retention", to.common.retention, "NAME",
            "takt counts the blocks, and decides by this what goes first of KV that workflows have left behind; see "
            "'takt policies'");
  group.Add("--gate", to.common.gate, "NAME", "which requests may take what is held for others; see 'takt policies'");
  group.AddFlag("--overlap", to.overlap, "plan a step while the one before it runs");
  group.AddFlag("--awake", to.awake, "with --overlap: wait for the step without sleeping; takes a core of its own");
  group.Add("--policy", to.common.policies, "NAME",
            "which request first; with --trace several times, to compare with the first [fcfs]; see 'takt policies'");
  group.Add("--option", to.common.options, "K=V",
            "how the scheduler or a policy behaves: preempt=by_rank, preempt_action=out, pause=swap_all, "
            "chunk_tokens=64, ... (docs/reference/cli.md lists them)");
}

void AddTrace(CLI::App& app, Arguments& to) {
  Group group(app, "A trace");
  group.Add("--trace", to.common.workload.file, "FILE", "play it in real time: a trace, 'bundled', or a generator")
      .Each([&to] { to.trace = true; });
  AddWorkloadSource(group, to.common.workload);
  group.Add("--estimates", to.common.estimates, "KIND",
            "what is known of lengths: oracle, noise:SIGMA, calibrated:SIGMA, class-mean, none [oracle]");
  const takt::tool::Flag scale =
      group.Add("--rate-scale", to.common.rate_scale, "X", "requests come X times as fast as they did", Positive());
  group
      .Add("--closed-loop", to.common.closed_loop, "N",
           "N workflows in flight: one starts when another ends, whenever it had come", Whole(1, INT64_MAX))
      .Excludes({scale});
  group.Add("--horizon", to.common.horizon, "S", "the run ends after S seconds, whatever still waits or runs",
            Positive());
  group.Add("--think-cap", to.common.think_cap, "S",
            "with --closed-loop and --horizon: pauses between the requests of a workflow last at most S seconds",
            takt::tool::Share(1e9));
  group.AddFlag("--processor-time", to.processor_time,
                "count the time in which the engine has a processor, and skip what it waits: for a machine that others "
                "use too; needs --threads 1");
}

void AddServer(CLI::App& app, Arguments& to) {
  Group group(app, "A server");
  group
      .Add("--serve", to.http.port, "PORT", "answer HTTP requests at this port; 0: at any that is free",
           Whole(0, 65535))
      .Each([&to] { to.serve = true; });
  group.Add("--host", to.http.host, "ADDRESS", "where to listen");
  group.Add("--connections", to.http.connections, "N", "requests that are answered at once", Whole(1, 2048));
  group.Add("--max-body", to.http.max_body, "BYTES", "longest body of a request", Whole(1, 1 << 30));
  group.Add("--drain", to.drain_s, "S", "when asked to end, requests have S seconds to come to theirs", Positive());
}

void AddOutput(Group group, Arguments& to) {
  AddReports(group, to.common, to.common);
  group.Add("--steps", to.steps, "FILE", "what every step computed and how long it took, one a line (of one policy)");
  group.Add("--log", to.log, "FILE", "all that takt was told and answered, for takt replay-log (of one policy)");
}

}  // namespace

absl::StatusOr<ModelConfig> SizeNamed(const std::string& name) {
  std::string known;
  for (const auto& [size, config] : kSizes) {
    if (name == size) return config;
    known += (known.empty() ? "" : ", ") + std::string(size);
  }
  return absl::InvalidArgumentError("--model: there is no '" + name + "', but " + known);
}

std::variant<Arguments, int> ParseArguments(int argc, const char* const* argv) {
  Arguments arguments;
  arguments.common.workload.file.clear();
  arguments.common.token_budget = 256;
  arguments.common.max_seqs = 64;
  CLI::App app(kHelp, "tiny_engine");
  app.formatter(takt::tool::HelpFormat());
  app.set_version_flag("--version", "tiny_engine of takt " TAKT_VERSION);
  app.footer(kExamples);
  AddTrace(app, arguments);
  AddServer(app, arguments);
  AddModel({app, "Model"}, arguments.model);
  AddEngine({app, "Engine"}, arguments);
  AddOutput({app, "Output (a file, or - for standard output)"}, arguments);
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

}  // namespace tiny
