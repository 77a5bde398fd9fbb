#include "serve.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
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

namespace serving {
namespace {

using takt::tool::Counted;
using takt::tool::OutputFile;

void Say(const Program& program, const std::string& line) {
  std::fputs(fmt::format("{}: {}\n", program.name(), line).c_str(), stdout);
  std::fflush(stdout);
}

absl::Status CheckUsage(const Arguments& arguments, const ServedModel& model) {
  if (arguments.trace) return absl::InvalidArgumentError("--serve excludes --trace");
  if (arguments.common.policies.size() != 1) return absl::InvalidArgumentError("--serve: expected a single --policy");
  if (model.text() == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("the model's vocabulary has {} tokens, too few for text", model.vocab()));
  }
  return absl::OkStatus();
}

// Keys the ids of names that clients choose.
std::uint64_t DrawHashSeed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

// Serves until an interrupt. Returns true if every request ended by itself.
absl::StatusOr<bool> ServeUntilInterrupted(const Program& program, const Arguments& arguments, const ServedModel& model,
                                           EngineOptions options) {
  auto service = Service::Start(model, std::move(options));
  if (!service.ok()) return service.status();
  const ApiLimits limits{model.name(), model.max_context(), model.text()->size(), model.text(), model.filler()};
  HttpServer server(**service, limits, arguments.http);
  if (absl::Status started = server.Start(); !started.ok()) return started;
  const std::string size =
      model.parameters() > 0 ? fmt::format(" ({:.1f} M parameters)", model.parameters() / 1e6) : "";
  Say(program, fmt::format("{}{} under {} at http://{}:{}", limits.model, size, arguments.common.policies[0],
                           arguments.http.host, server.port()));
  while (!takt::tool::Interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(20));

  const auto report = (*service)->Report(std::chrono::seconds(5));
  const std::int64_t left =
      report ? report->scheduler.waiting + report->scheduler.running + report->scheduler.paused : 0;
  Say(program, fmt::format("stopping; {} left, which {} {} s", Counted(left, "request"), left == 1 ? "has" : "have",
                           arguments.drain_s));
  server.Refuse();
  const std::int64_t cut = (*service)->Drain(takt::FromSeconds(arguments.drain_s));
  server.Stop();
  if (const SimulatedTime* time = model.time()) {
    Say(program, fmt::format("steps ended {:.2f} ms late in the mean, {:.2f} ms at most",
                             takt::ToSeconds(time->mean_late()) * 1e3, takt::ToSeconds(time->latest()) * 1e3));
  }
  Say(program, cut == 0 ? std::string("all requests have been answered")
                        : fmt::format("{} interrupted because the time was over", Counted(cut, "request")));
  return cut == 0;
}

}  // namespace

int Serve(Program& program, Arguments arguments) {
  using takt::tool::kFailed, takt::tool::kUsage;
  if (arguments.common.policies.empty()) arguments.common.policies = {"fcfs"};
  if (arguments.faults) {
    const absl::StatusOr<FaultOptions> faults = ParseFaults(arguments.fault);
    if (!faults.ok()) {
      return program.Complain(absl::InvalidArgumentError("--fault: " + std::string(faults.status().message())), kUsage);
    }
    arguments.http.faults = *faults;
  }
  absl::StatusOr<EngineOptions> options = MakeEngineOptions(arguments);
  if (!options.ok()) return program.Complain(options.status(), kUsage);
  const absl::StatusOr<std::unique_ptr<ServedModel>> model = program.Load(arguments);
  if (!model.ok()) return program.Complain(model.status(), kFailed);
  if (absl::Status usage = CheckUsage(arguments, **model); !usage.ok()) return program.Complain(usage, kUsage);
  auto steps = OpenIfNamed(arguments.steps), log = OpenIfNamed(arguments.log);
  if (!steps.ok()) return program.Complain(steps.status(), kFailed);
  if (!log.ok()) return program.Complain(log.status(), kFailed);

  options->policy = arguments.common.policies[0];
  options->scheduler.hash_seed = DrawHashSeed(), arguments.http.hash_seed = DrawHashSeed();
  takt::Recorder recorder([&](std::string_view bytes) { (*log)->Write(bytes); });
  if (*log) options->recorder = &recorder;
  if (*steps)
    options->on_step = [&](const StepReport& report) { (*steps)->Write(StepLine(report, report.scheduling)); };
  takt::tool::CatchInterrupts();
  auto requests = OpenIfNamed(arguments.requests);
  if (!requests.ok()) return program.Complain(requests.status(), kFailed);
  if (*requests) options->on_request = [&](const RequestReport& report) { (*requests)->Write(RequestLine(report)); };
  const absl::StatusOr<bool> all_answered = ServeUntilInterrupted(program, arguments, **model, *std::move(options));
  if (*log) recorder.Flush();
  absl::Status written = all_answered.status();
  if (*steps) written.Update((*steps)->Close());
  if (*log) written.Update((*log)->Close());
  if (*requests) written.Update((*requests)->Close());
  if (!written.ok()) return program.Complain(written, kFailed);
  return *all_answered ? takt::tool::kDone : kFailed;
}

}  // namespace serving
