#include "takt/workload/write.h"

#include <zlib.h>

#include <cerrno>
#include <iterator>
#include <memory>
#include <span>
#include <system_error>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "takt/base/names.h"

namespace takt {
namespace {

using Out = std::back_insert_iterator<std::string>;

// Returns the text as JSON. Invalid UTF-8 becomes U+FFFD.
std::string Text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Texts(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(Text(text));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

// Returns exact seconds: 1.5, 0.000000001.
std::string Seconds(Duration d) {
  const std::int64_t second = 1'000'000'000;
  std::string text = fmt::format("{}.{:09}", d.count() / second, d.count() % second);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

void AddTools(Out out, const Workload& w, const WorkloadCall& call) {
  fmt::format_to(out, ", \"tools\": [");
  const char* comma = "";
  for (const WorkloadTool& tool : w.tools_of(call)) {
    fmt::format_to(out, "{}{{\"after\": {}, \"duration_s\": {}", comma, tool.after_tokens, Seconds(tool.duration));
    if (tool.returned_tokens != 0) fmt::format_to(out, ", \"returned\": {}", tool.returned_tokens);
    if (tool.name != 0) fmt::format_to(out, ", \"class\": {}", Text(w.names[tool.name]));
    fmt::format_to(out, "}}");
    comma = ", ";
  }
  fmt::format_to(out, "]");
}

void AddRuns(Out out, const Workload& w, const WorkloadCall& call) {
  const char* open = ", \"blocks\": [";
  for (const PrefixRun& run : w.runs_of(call)) {
    fmt::format_to(out, "{}[{}, {}]", open, run.first, run.count);
    open = ", ";
  }
  fmt::format_to(out, "]");
}

void AddCall(Out out, const Workload& w, std::size_t index) {
  const WorkloadCall& call = w.calls[index];
  fmt::format_to(out, "{{\"prompt\": {}, \"output\": {}", call.prompt_tokens, call.output_tokens);
  if (!w.models.empty()) {
    const auto outputs = std::span(w.model_tokens).subspan(index * w.models.size(), w.models.size());
    fmt::format_to(out, ", \"outputs\": [{}]", fmt::join(outputs, ", "));
  }
  if (!w.feature_names.empty()) {
    const auto numbers = w.features_of(index);
    const std::vector<double> exact(numbers.begin(), numbers.end());  // doubles keep every digit
    fmt::format_to(out, ", \"features\": [{}]", fmt::join(exact, ", "));
  }
  if (call.stage != 0) fmt::format_to(out, ", \"stage\": {}", Text(w.names[call.stage]));
  if (call.agent != 0) fmt::format_to(out, ", \"agent\": {}", Text(w.names[call.agent]));
  if (call.predecessors > 0) fmt::format_to(out, ", \"after\": [{}]", fmt::join(w.predecessors_of(call), ", "));
  if (call.delay != Duration::zero()) fmt::format_to(out, ", \"delay_s\": {}", Seconds(call.delay));
  if (call.tools > 0) AddTools(out, w, call);
  if (call.hashes > 0) fmt::format_to(out, ", \"prefix\": [{}]", fmt::join(w.hashes_of(call), ", "));
  if (call.runs > 0) AddRuns(out, w, call);
  if (call.adapter != 0) fmt::format_to(out, ", \"adapter\": {}", call.adapter);
  if (call.branch != 0) fmt::format_to(out, ", \"branch\": {}", call.branch);
  if (call.then != TurnEnd::kUnknown) fmt::format_to(out, ", \"next\": \"{}\"", Name(call.then));
  fmt::format_to(out, "}}");
}

void AddHeader(Out out, const Workload& w) {
  fmt::format_to(out, "{{\"takt_workload\": 1, \"name\": {}, \"prefix_block_tokens\": {}", Text(w.name),
                 w.prefix_block_tokens);
  if (!w.models.empty()) fmt::format_to(out, ", \"models\": {}", Texts(w.models));
  if (!w.feature_names.empty()) fmt::format_to(out, ", \"features\": {}", Texts(w.feature_names));
  if (!w.tenant_names.empty()) fmt::format_to(out, ", \"tenants\": {}", Texts(w.tenant_names));
  fmt::format_to(out, "}}\n");
}

void AddWorkflow(Out out, const Workload& w, std::size_t index) {
  const WorkloadWorkflow& workflow = w.workflows[index];
  fmt::format_to(out, "{{\"id\": {}, \"arrival_s\": {}", index, Seconds(workflow.arrival.time_since_epoch()));
  if (workflow.name != 0) fmt::format_to(out, ", \"class\": {}", Text(w.names[workflow.name]));
  if (workflow.deadline != Duration::max()) fmt::format_to(out, ", \"deadline_s\": {}", Seconds(workflow.deadline));
  if (workflow.tenant != 0) {
    const std::string tenant = w.TenantOf(workflow);
    fmt::format_to(out, ", \"tenant\": {}", w.tenant_names.empty() ? tenant : Text(tenant));
  }
  if (workflow.priority != 0) fmt::format_to(out, ", \"priority\": {}", workflow.priority);
  fmt::format_to(out, ", \"calls\": [");
  for (std::uint32_t i = 0; i < workflow.calls; ++i) {
    if (i > 0) fmt::format_to(out, ", ");
    AddCall(out, w, workflow.first_call + std::size_t{i});
  }
  fmt::format_to(out, "]");
  if (workflow.solved_by != 0) {
    std::vector<std::string> solvers;
    for (std::size_t m = 0; m < w.models.size(); ++m) {
      if (workflow.solved_by >> m & 1) solvers.push_back(w.models[m]);
    }
    fmt::format_to(out, ", \"solved_by\": {}", Texts(solvers));
  }
  fmt::format_to(out, "}}\n");
}

struct CloseFile {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

absl::Status Failed(const std::string& path, int error) {
  return absl::UnavailableError(path + ": cannot be written: " + std::generic_category().message(error));
}

}  // namespace

std::string ToJsonl(const Workload& workload) {
  std::string text;
  AddHeader(std::back_inserter(text), workload);
  for (std::size_t i = 0; i < workload.workflows.size(); ++i) AddWorkflow(std::back_inserter(text), workload, i);
  return text;
}

absl::Status WriteWorkload(const Workload& workload, const std::string& path) {
  std::unique_ptr<gzFile_s, CloseFile> file(gzopen(path.c_str(), path.ends_with(".gz") ? "wb" : "wbT"));
  if (file == nullptr) return Failed(path, errno);
  std::string line;
  AddHeader(std::back_inserter(line), workload);
  for (std::size_t i = 0;; ++i) {
    if (gzwrite(file.get(), line.data(), static_cast<unsigned>(line.size())) == 0) return Failed(path, errno);
    if (i == workload.workflows.size()) break;
    line.clear();
    AddWorkflow(std::back_inserter(line), workload, i);
  }
  return gzclose(file.release()) == Z_OK ? absl::OkStatus() : Failed(path, errno);
}

}  // namespace takt
