// Any bytes as files and options that the other targets do not read. The first byte chooses the reader. A refusal must
// have a message, and accepted input keeps the promises of its type.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tool/command/call_log.h"
#include "tool/plan/cluster_input.h"
#include "tool/plan/plan_input.h"
#include "fmt/format.h"
#include "takt/learning/agent_learner.h"
#include "takt/pause/registry.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"
#include "takt/rivals/rivals.h"
#include "takt/sim/estimates.h"
#include "takt/sim/profiles.h"

namespace takt {
namespace {

const absl::Status kRivals = RegisterRivals();

void Expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// A file with `text`, for readers that need a path.
class File {
 public:
  explicit File(std::string_view text) : file_(memfd_create("fuzz", 0)) {
    Expect(file_ >= 0 && write(file_, text.data(), text.size()) == static_cast<ssize_t>(text.size()), "a file");
  }
  ~File() { close(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::string path() const { return fmt::format("/proc/self/fd/{}", file_); }

 private:
  int file_;
};

template <class Read>
bool Accepted(const Read& read) {
  if (!read.ok()) Expect(!read.status().message().empty(), "a reason");
  return read.ok();
}

// With a valid checksum, to reach the code after it.
void Learnt(std::string_view body) {
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (const char c : body) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  AgentLearner learner;
  AgentNames names(100);
  const absl::Status status = learner.Load(fmt::format("takt_learnt 1 {:016x}\n{}", sum, body), names);
  if (!status.ok()) return Expect(!status.message().empty(), "a reason");
  Expect(names.size() <= 100, "the bound on names stays");
  const std::size_t nodes = learner.graph().nodes().size();
  for (const CallNode& node : learner.graph().nodes()) {
    for (const CallPath& path : node.paths) {
      for (const std::uint32_t agent : path.agents) Expect(agent < nodes || agent == CallGraph::kThen, "a path's node");
    }
  }
  for (const CallEdge& edge : learner.graph().edges()) Expect(edge.from < nodes && edge.to < nodes, "an edge's nodes");
  for (const CallJoin& join : learner.graph().joins()) Expect(join.from < nodes && join.to < nodes, "a join's nodes");
  (void)learner.Table();
  (void)learner.graph().undecided();
  AgentNames again_names(100);
  AgentLearner again;
  Expect(again.Load(learner.Save(names), again_names).ok(), "what is written can be read");
  for (int call = 0; call < 3; ++call) {
    const TimePoint at = TimePoint{} + std::chrono::seconds(call);
    learner.Add({{1}, {static_cast<std::uint64_t>(call)}, {1}, at, at + std::chrono::seconds(1)}, at);
  }
  learner.Close({1});
}

void Profiles(std::string_view text) {
  const File file(text);
  const auto profiles = ReadProfiles(file.path());
  if (!Accepted(profiles)) return;
  for (const Profile& profile : *profiles) Expect(profile.cost.Faults().empty(), "a cost");
}

void Specs(std::string_view text) {
  if (const auto made = MakePolicy(text); Accepted(made)) Expect(MakePolicy(made->spec()).ok(), "a policy's spec");
  if (const auto made = MakePause(text); Accepted(made)) Expect(MakePause(made->spec()).ok(), "a pause policy's spec");
  if (const auto made = MakePlacement(text); Accepted(made)) {
    Expect(MakePlacement(made->spec()).ok(), "a placement's spec");
  }
  if (const auto read = EstimateSpec::Parse(text); Accepted(read)) Expect(std::isfinite(read->sigma), "a sigma");
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return;
  (void)Accepted(MakePolicy(text.substr(0, space), std::vector{std::string(text.substr(space + 1))}));
}

void Calls(std::string_view text) {
  const File file(text);
  for (const bool outputs : {false, true}) {
    tool::CallLogReport report;
    const auto log = tool::ReadCallLog(file.path(), {.outputs = outputs, .skip_bad_lines = outputs}, report);
    if (!Accepted(log)) continue;
    std::size_t calls = 0;
    for (const std::vector<LoggedCall>& workflow : log->ByWorkflow()) calls += workflow.size();
    Expect(calls == log->calls.size() && calls == log->lines.size() && calls > 0, "each call once");
    for (const LoggedCall& logged : log->calls) Expect(!outputs || logged.output_tokens.value >= 0, "an output");
  }
}

void Models(std::string_view text) {
  const File file(text);
  const auto models = tool::ReadModels(file.path(), {});
  if (!Accepted(models)) return;
  for (const ServedModel& model : *models) Expect(!model.shapes.empty(), "a shape");
}

void Sample(std::string_view text) {
  const File file(text);
  for (const std::size_t models : {1u, 2u}) {
    const auto sample = tool::ReadSample(file.path(), models);
    if (!Accepted(sample)) continue;
    for (const CascadeSample& s : *sample) {
      Expect(s.outputs.size() == models && s.scores.size() == models && s.prompt > 0, "one of each model");
    }
  }
}

void Cluster(std::string_view text) {
  const File file(text);
  if (const auto problem = tool::ReadClusterProblem(file.path()); Accepted(problem)) {
    Expect(problem->Validate().ok(), "a problem");
  }
}

}  // namespace
}  // namespace takt

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'a': takt::Learnt(text); break;
    case 'p': takt::Profiles(text); break;
    case 's': takt::Specs(text); break;
    case 'c': takt::Calls(text); break;
    case 'm': takt::Models(text); break;
    case 'q': takt::Sample(text); break;
    case 'k': takt::Cluster(text); break;
    default: break;
  }
  return 0;
}
