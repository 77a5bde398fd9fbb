#include "serve.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "tool/run/exit_code.h"
#include "tool/run/output.h"
#include "tool/report/table.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"
#include "http_server.h"
#include "setup.h"
#include "step_log.h"
#include "takt/record.h"
#include "text.h"

namespace tiny {
namespace {

using takt::tool::Counted;
using takt::tool::OutputFile;

void Say(const std::string& line) {
  std::fputs(("tiny_engine: " + line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

absl::Status CheckUsage(const Arguments& arguments, const Model& model) {
  if (arguments.trace) return absl::InvalidArgumentError("--serve and --trace exclude each other");
  if (arguments.common.policies.size() != 1) return absl::InvalidArgumentError("--serve takes one --policy");
  if (model.config().vocab < kTextVocab) {
    return absl::InvalidArgumentError(
        fmt::format("the model knows {} tokens, and text takes {}", model.config().vocab, kTextVocab));
  }
  return absl::OkStatus();
}

std::string NameOf(const Arguments& arguments) {
  if (!arguments.model.weights.empty()) return "tiny";
  std::string name = "tiny-" + arguments.model.size;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

// Clients choose the names of workflows and agents, and what prompts begin with.
std::uint64_t DrawHashSeed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

// Serves until an interrupt. True where every request came to an end of its own.
absl::StatusOr<bool> ServeUntilInterrupted(const Arguments& arguments, const Model& model, EngineOptions options) {
  auto service = Service::Start(model, std::move(options));
  if (!service.ok()) return service.status();
  const ApiLimits limits{NameOf(arguments), model.config().max_context, kTextVocab};
  HttpServer server(**service, limits, arguments.http);
  if (absl::Status started = server.Start(); !started.ok()) return started;
  Say(fmt::format("{} ({:.1f} M parameters) under {} at http://{}:{}", limits.model,
                  static_cast<double>(model.config().parameters()) / 1e6, arguments.common.policies[0],
                  arguments.http.host, server.port()));
  while (!takt::tool::Interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(20));

  const auto report = (*service)->Report(std::chrono::seconds(5));
  const std::int64_t left = report ? report->waiting + report->running + report->paused : 0;
  Say(fmt::format("ending; {} left, which {} {} s", Counted(left, "request"), left == 1 ? "has" : "have",
                  arguments.drain_s));
  server.Refuse();
  const std::int64_t cut = (*service)->Drain(takt::FromSeconds(arguments.drain_s));
  server.Stop();
  Say(cut == 0 ? std::string("all requests have been answered")
               : fmt::format("{} cut: no time was left", Counted(cut, "request")));
  return cut == 0;
}

}  // namespace

int Serve(Arguments arguments) {
  using takt::tool::kFailed, takt::tool::kUsage;
  if (arguments.common.policies.empty()) arguments.common.policies = {"fcfs"};
  absl::StatusOr<EngineOptions> options = MakeEngineOptions(arguments);
  if (!options.ok()) return Complain(options.status(), kUsage);
  const absl::StatusOr<Model> model = MakeModel(arguments.model);
  if (!model.ok()) return Complain(model.status(), kFailed);
  if (absl::Status usage = CheckUsage(arguments, *model); !usage.ok()) return Complain(usage, kUsage);
  auto steps = OpenIfNamed(arguments.steps), log = OpenIfNamed(arguments.log);
  if (!steps.ok()) return Complain(steps.status(), kFailed);
  if (!log.ok()) return Complain(log.status(), kFailed);

  options->policy = arguments.common.policies[0];
  options->scheduler.hash_seed = DrawHashSeed();
  takt::Recorder recorder([&](std::string_view bytes) { (*log)->Write(bytes); });
  if (*log) options->recorder = &recorder;
  if (*steps)
    options->on_step = [&](const StepReport& report) { (*steps)->Write(StepLine(report, report.scheduling)); };
  takt::tool::CatchInterrupts();
  const absl::StatusOr<bool> all_answered = ServeUntilInterrupted(arguments, *model, *std::move(options));
  if (*log) recorder.Flush();
  absl::Status written = all_answered.status();
  if (*steps) written.Update((*steps)->Close());
  if (*log) written.Update((*log)->Close());
  if (!written.ok()) return Complain(written, kFailed);
  return *all_answered ? takt::tool::kDone : kFailed;
}

}  // namespace tiny
