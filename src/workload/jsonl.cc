// The formats with one JSON object per line: Mooncake's, InferCept's requests with tool calls, HexGen-Flow's
// text-to-SQL workflows, and takt's own.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <map>
#include <span>

#include "fmt/format.h"
#include "workload/format.h"
#include "workload/json_members.h"

namespace takt {
namespace {

constexpr std::size_t kMaxTenants = 10'000'000;
constexpr std::size_t kMaxLinks = 10'000'000;  // limit of links between calls
// Links allowed per byte of the line. A stage of two thousand calls after another such stage has 28 per byte.
constexpr std::size_t kLinksPerByte = 32, kFreeLinks = 100'000;

class JsonParser : public LineParser {
 public:
  explicit JsonParser(WorkloadBuilder& builder) : builder_(builder) {}

  absl::Status Parse(std::string_view line) final {
    line_bytes_ = line.size();
    const absl::StatusOr<Json> json = ParseJsonLine(line);
    return json.ok() ? Object(*json) : json.status();
  }

 protected:
  virtual absl::Status Object(const Json& json) = 0;

  WorkloadBuilder& builder_;
  std::size_t line_bytes_ = 0;
};

class MooncakeParser : public JsonParser {
 public:
  using JsonParser::JsonParser;

  absl::Status Object(const Json& json) override {
    absl::Status fault;
    Members line(json, "", fault);
    const Duration arrival = line.Time("timestamp", 1000);
    const std::int64_t prompt = line.Whole("input_length", 0, kMostLineTokens);
    const std::int64_t output = line.Whole("output_length", 0, kMostLineTokens);
    line.Hashes("hash_ids", hashes_);
    constexpr std::int64_t kBlock = 512;
    const auto blocks = static_cast<std::size_t>((prompt + kBlock - 1) / kBlock);
    if (hashes_.size() > blocks) {
      line.Fault("hash_ids", fmt::format("has {} blocks of 512 tokens; expected {}, as many as the input needs",
                                         hashes_.size(), blocks));
    }
    if (fault.ok()) builder_.Add(TimePoint(arrival), AtLeastOne(prompt), AtLeastOne(output), 0, 0, hashes_);
    return fault;
  }

 private:
  std::vector<std::uint64_t> hashes_;
};

// InferCept's requests: one call each, split into segments by its tool calls.
class InferCeptParser : public JsonParser {
 public:
  InferCeptParser(const ReadOptions& options, WorkloadBuilder& builder) : JsonParser(builder), arrivals_(options) {}

  bool has_times() const override { return false; }

  absl::Status Object(const Json& json) override {
    absl::Status fault;
    Members line(json, "", fault);
    line.Only({"id", "key", "class", "prompt", "total_gen", "total_ret", "n_api", "segments"});
    const WorkloadWorkflow head{.arrival = arrivals_.now(), .name = builder_.Name(line.Text("class"))};
    CallDraft draft;
    draft.call.prompt_tokens = AtLeastOne(line.Whole("prompt", 0, kMostLineTokens));
    const std::span<const Json> segments = line.Array("segments", false);
    if (segments.empty()) line.Fault("segments", "is empty; expected a segment");
    if (segments.size() > kMaxCalls)
      line.Fault("segments", fmt::format("has too many entries; expected at most {}", kMaxCalls));
    Sums sums;
    std::int64_t output = 0;
    for (std::size_t i = 0; i < segments.size() && fault.ok(); ++i) {
      Segment(segments[i], i, i + 1 == segments.size(), draft, output, sums, fault);
    }
    CheckSum(line, "total_gen", sums.generated);
    CheckSum(line, "total_ret", sums.returned);
    CheckSum(line, "n_api", std::ssize(draft.tools));
    if (!fault.ok()) return fault;
    draft.call.output_tokens = static_cast<std::int32_t>(output);
    absl::Status added = builder_.Add(head, {&draft, 1});
    if (added.ok()) arrivals_.Next();
    return added;
  }

 private:
  struct Sums {
    std::int64_t generated = 0, returned = 0;
  };

  // Reads the output of a segment and the tool that ends it. Its `ctx` is not read, because the context is the sum of
  // the earlier segments. A request that ends with a tool's answer generates one last token.
  void Segment(const Json& json, std::size_t index, bool last, CallDraft& draft, std::int64_t& output, Sums& sums,
               absl::Status& fault) {
    Members members(json, fmt::format("segments[{}]", index), fault);
    members.Only({"ctx", "gen", "api", "api_s", "ret", "ret_raw"});
    const std::int64_t generated = members.Whole("gen", 0, kMostLineTokens);
    output += AtLeastOne(generated);
    sums.generated += generated;
    if (output > kMostLineTokens)
      return members.Fault("gen", fmt::format("is too large; expected at most {} tokens of output", kMostLineTokens));
    if (members.Find("api") == nullptr) {
      if (!last) members.Fault("api", "is missing; every segment but the last needs it");
      for (const char* key : {"api_s", "ret"}) {
        if (members.Find(key) != nullptr) members.Fault(key, "is invalid without an api; expected both or neither");
      }
      return;
    }
    WorkloadTool tool;
    tool.after_tokens = static_cast<std::int32_t>(output);
    tool.duration = members.Time("api_s", 1);
    tool.returned_tokens = static_cast<std::int32_t>(members.Whole("ret", 0, kMostLineTokens));
    tool.name = builder_.Name(members.Text("api"));
    if (tool.name == 0) members.Fault("api", "is empty");
    draft.tools.push_back(tool);
    sums.returned += tool.returned_tokens;
    if (last) output += AtLeastOne(0);
  }

  void CheckSum(Members& line, const char* key, std::int64_t sum) {
    const std::int64_t stated = line.Whole(key, 0, INT64_MAX, sum);
    if (stated != sum) line.Fault(key, fmt::format("{} is invalid; expected {}, the sum of the segments", stated, sum));
  }

  GeneratedArrivals arrivals_;
};

// HexGen-Flow's workflows (Peng et al., 2025), whose calls wait for all calls of the previous stage.
class Text2SqlParser : public JsonParser {
 public:
  Text2SqlParser(const ReadOptions& options, WorkloadBuilder& builder) : JsonParser(builder), arrivals_(options) {}

  bool has_times() const override { return false; }

  absl::Status Object(const Json& json) override {
    absl::Status fault;
    Members line(json, "", fault);
    line.Only({"id", "trace", "index", "n_calls", "n_stages", "sig", "first_copy", "calls"});
    const WorkloadWorkflow head{.arrival = arrivals_.now(), .name = builder_.Name(line.Text("trace"))};
    const std::span<const Json> calls = line.Array("calls", false);
    if (calls.empty()) line.Fault("calls", "is empty; expected a call");
    if (calls.size() > kMaxCalls)
      line.Fault("calls", fmt::format("has too many entries; expected at most {}", kMaxCalls));
    const std::int64_t stated = line.Whole("n_calls", 0, INT64_MAX, std::ssize(calls));
    if (stated != std::ssize(calls))
      line.Fault("n_calls", fmt::format("{} is invalid; expected {}, the number of calls", stated, calls.size()));
    std::vector<CallDraft> drafts;
    std::size_t links = 0;
    for (std::size_t i = 0; i < calls.size() && fault.ok(); ++i) {
      drafts.push_back(Call(calls[i], i, calls.size(), fault));
      links += drafts.back().after.size();
      if (links > kMaxLinks)
        line.Fault("calls", fmt::format("has too many predecessors; expected at most {}", kMaxLinks));
    }
    if (!fault.ok()) return fault;
    absl::Status added = builder_.Add(head, drafts);
    if (added.ok()) arrivals_.Next();
    return added;
  }

 private:
  CallDraft Call(const Json& json, std::size_t index, std::size_t calls, absl::Status& fault) {
    Members members(json, fmt::format("calls[{}]", index), fault);
    members.Only({"i", "step", "stage", "preds", "in", "out", "paper_stage"});
    CallDraft draft;
    draft.call.stage = builder_.Name(members.Text("step"));
    // The paper's stage, of which a step is a part, replaces the role.
    const std::int64_t part = members.Whole("paper_stage", 0, 1'000'000, 0);
    if (part > 0) draft.call.agent = builder_.Name(fmt::format("stage {}", part));
    draft.call.prompt_tokens = AtLeastOne(members.Whole("in", 0, kMostLineTokens));
    draft.call.output_tokens = AtLeastOne(members.Whole("out", 0, kMostLineTokens));
    for (const Json& before : members.Array("preds")) {
      draft.after.push_back(
          static_cast<std::uint32_t>(members.WholeOf(before, "preds", 0, static_cast<std::int64_t>(calls) - 1)));
    }
    return draft;
  }

  GeneratedArrivals arrivals_;
};

class WorkflowParser : public JsonParser {
 public:
  using JsonParser::JsonParser;

  absl::Status Object(const Json& json) override {
    absl::Status fault;
    Members line(json, "", fault);
    if (line.Find("takt_workload") != nullptr) return FileHeader(line, fault);
    line.Only({"id", "class", "arrival_s", "deadline_s", "tenant", "priority", "calls", "solved_by"});
    WorkloadWorkflow head;
    head.arrival = TimePoint(line.Time("arrival_s", 1));
    head.deadline = line.Time("deadline_s", 1, Duration::max());
    head.tenant = Tenant(line);
    head.priority = static_cast<std::int32_t>(line.Whole("priority", INT32_MIN, INT32_MAX, 0));
    head.name = builder_.Name(line.Text("class"));
    for (const Json& solver : line.Array("solved_by")) {
      const std::string* name = solver.is_string() ? solver.get_ptr<const std::string*>() : nullptr;
      const std::size_t m = name != nullptr ? builder_.workload().ModelIndex(*name) : Workload::kNoModel;
      if (m == Workload::kNoModel) {
        line.Fault("solved_by", Shown(solver) + " is unknown; expected a model of the first line");
        break;
      }
      head.solved_by |= std::uint32_t{1} << m;
    }
    const std::span<const Json> calls = line.Array("calls", false);
    if (calls.empty()) line.Fault("calls", "is empty; expected a call");
    if (calls.size() > kMaxCalls)
      line.Fault("calls", fmt::format("has too many entries; expected at most {}", kMaxCalls));
    if (!fault.ok()) return fault;
    std::vector<CallDraft> drafts;
    for (const Json& call : calls) drafts.push_back(Call(call, fmt::format("calls[{}]", drafts.size()), fault));
    links_ = 0;
    of_stage_.clear();
    for (std::uint32_t i = 0; i < drafts.size(); ++i) {
      of_stage_[builder_.workload().names[drafts[i].call.stage]].push_back(i);
    }
    for (std::size_t i = 0; i < calls.size() && fault.ok(); ++i) Link(calls[i], i, drafts, fault);
    return fault.ok() ? builder_.Add(head, drafts) : fault;
  }

 private:
  absl::Status FileHeader(Members& line, absl::Status& fault) {
    line.Only({"takt_workload", "name", "prefix_block_tokens", "models", "features", "tenants"});
    line.Whole("takt_workload", 1, 1);
    Workload& w = builder_.workload();
    const auto block =
        static_cast<std::int32_t>(line.Whole("prefix_block_tokens", 1, kMaxContextTokens, w.prefix_block_tokens));
    if (!w.workflows.empty()) line.Fault("takt_workload", "is invalid on this line; expected on the first line only");
    const std::string_view name = line.Text("name");
    std::vector<std::string> models = Names(line, "models", kMaxWorkloadModels);
    std::vector<std::string> features = Names(line, "features", kMaxWorkloadFeatures);
    for (std::size_t m = 0; m < models.size(); ++m) {
      if (models[m].empty()) line.Fault("models", "an entry is empty; expected a name");
      if (std::count(models.begin(), models.end(), models[m]) > 1)
        line.Fault("models", "an entry is repeated; expected distinct names");
    }
    const std::vector<std::string> tenants = Names(line, "tenants", kMaxTenants);
    for (std::size_t t = 0; t < tenants.size() && fault.ok(); ++t) {
      if (tenants[t].empty()) line.Fault("tenants", "an entry is empty; expected a name");
      else if (builder_.Tenant(tenants[t]) != t + 1)
        line.Fault("tenants", Quoted(tenants[t]) + " is repeated; expected distinct names");
    }
    if (!fault.ok()) return fault;
    w.models = std::move(models);
    w.feature_names = std::move(features);
    w.prefix_block_tokens = block;
    if (!name.empty()) w.name = name;
    return fault;
  }

  // Tenants are names or numbers, but not both in one file.
  std::uint32_t Tenant(Members& line) {
    const Json* tenant = line.Find("tenant");
    if (tenant == nullptr) return 0;
    const bool named = tenant->is_string();
    if (named ? numbered_ : !builder_.workload().tenant_names.empty()) {
      line.Fault("tenant", fmt::format("{} is a {}; expected a {}, as on earlier lines", Shown(*tenant),
                                       named ? "name" : "number", named ? "number" : "name"));
      return 0;
    }
    if (named) return builder_.Tenant(tenant->get_ref<const std::string&>());
    numbered_ = true;
    return static_cast<std::uint32_t>(line.Whole("tenant", 0, UINT32_MAX));
  }

  static std::vector<std::string> Names(Members& line, const char* key, std::size_t most) {
    std::vector<std::string> names;
    for (const Json& name : line.Array(key)) {
      if (!name.is_string()) return line.Fault(key, Shown(name) + " is invalid; expected a string"), names;
      names.push_back(name.get<std::string>());
    }
    if (names.size() > most) line.Fault(key, fmt::format("has too many entries; expected at most {}", most));
    return names;
  }

  // Reads one number for each model, or each feature, of the first line.
  void Differences(Members& members, CallDraft& draft) {
    const Workload& w = builder_.workload();
    const std::span<const Json> outputs = members.Array("outputs"), features = members.Array("features");
    if (outputs.size() != w.models.size()) {
      members.Fault("outputs", fmt::format("{} entries; expected {}, one per model of the first line", outputs.size(),
                                           w.models.size()));
    }
    if (features.size() != w.feature_names.size()) {
      members.Fault("features", fmt::format("{} entries; expected {}, one per feature of the first line",
                                            features.size(), w.feature_names.size()));
    }
    for (const Json& tokens : outputs) {
      draft.model_tokens.push_back(AtLeastOne(members.WholeOf(tokens, "outputs", 0, kMostLineTokens)));
    }
    for (const Json& x : features) {
      const double number = x.is_number() ? x.get<double>() : std::nan("");
      if (!(std::abs(number) <= static_cast<double>(FLT_MAX))) {
        return members.Fault("features", Shown(x) + " is invalid; expected a finite float");
      }
      draft.features.push_back(static_cast<float>(number));
    }
  }

  CallDraft Call(const Json& json, const std::string& path, absl::Status& fault) {
    Members members(json, path, fault);
    members.Only({"stage", "agent", "prompt", "output", "after", "delay_s", "tools", "prefix", "outputs", "features",
                  "blocks", "adapter", "branch", "next"});
    CallDraft draft;
    Differences(members, draft);
    draft.call.stage = builder_.Name(members.Text("stage"));
    draft.call.agent = builder_.Name(members.Text("agent"));
    draft.call.prompt_tokens = AtLeastOne(members.Whole("prompt", 0, kMostLineTokens));
    draft.call.output_tokens = AtLeastOne(members.Whole("output", 0, kMostLineTokens));
    draft.call.delay = members.Time("delay_s", 1, Duration::zero());
    members.Hashes("prefix", draft.hashes);
    members.Runs("blocks", draft.runs);
    draft.call.adapter = static_cast<std::uint32_t>(members.Whole("adapter", 0, UINT32_MAX, 0));
    draft.call.branch = static_cast<std::uint16_t>(members.Whole("branch", 0, UINT16_MAX, 0));
    draft.call.then = members.Named("next", TurnEnd::kUnknown);
    for (const Json& tool : members.Array("tools")) {
      draft.tools.push_back(Tool(tool, fmt::format("{}.tools[{}]", path, draft.tools.size()), fault));
    }
    return draft;
  }

  WorkloadTool Tool(const Json& json, const std::string& path, absl::Status& fault) {
    Members members(json, path, fault);
    members.Only({"after", "duration_s", "returned", "class"});
    WorkloadTool tool;
    tool.after_tokens = static_cast<std::int32_t>(members.Whole("after", 1, kMostLineTokens));
    tool.duration = members.Time("duration_s", 1);
    tool.returned_tokens = static_cast<std::int32_t>(members.Whole("returned", 0, kMostLineTokens, 0));
    tool.name = builder_.Name(members.Text("class"));
    return tool;
  }

  // `after` names calls by their position from 0, or all calls of a stage by its name.
  void Link(const Json& json, std::size_t self, std::vector<CallDraft>& drafts, absl::Status& fault) {
    Members members(json, fmt::format("calls[{}]", self), fault);
    std::vector<std::uint32_t>& links = drafts[self].after;
    const std::size_t most = std::min(kMaxLinks, kFreeLinks + kLinksPerByte * line_bytes_);
    for (const Json& after : members.Array("after")) {
      const std::size_t before = links.size();
      if (after.is_string()) {
        const auto stage = of_stage_.find(after.get_ref<const std::string&>());
        if (stage != of_stage_.end()) links.insert(links.end(), stage->second.begin(), stage->second.end());
      }
      if (after.is_number_unsigned() && after.get<std::uint64_t>() < drafts.size()) links.push_back(after);
      links_ += links.size() - before;
      if (links_ > most) {
        return members.Fault("after", fmt::format("has too many links; expected at most {} in a workflow of {} bytes",
                                                  most, line_bytes_));
      }
      if (links.size() > before) continue;
      return members.Fault(
          "after", fmt::format("{} is unknown; expected the position of a call, below {}, or the name of a stage",
                               Shown(after), drafts.size()));
    }
  }

  std::map<std::string_view, std::vector<std::uint32_t>> of_stage_;  // calls of the current workflow
  std::size_t links_ = 0;  // of the current workflow; a stage's name counts once per call
  bool numbered_ = false;  // a tenant was given by number
};

}  // namespace

std::unique_ptr<LineParser> MakeJsonParser(const ReadOptions& options, WorkloadFormat format,
                                           WorkloadBuilder& builder) {
  if (format == WorkloadFormat::kInferCept) return std::make_unique<InferCeptParser>(options, builder);
  if (format == WorkloadFormat::kText2Sql) return std::make_unique<Text2SqlParser>(options, builder);
  if (format == WorkloadFormat::kSessions) return MakeSessionsParser(options, builder);
  if (format == WorkloadFormat::kMooncake) return std::make_unique<MooncakeParser>(builder);
  return std::make_unique<WorkflowParser>(builder);
}

WorkloadFormat DetectJson(std::string_view line) {
  const Json json = Json::parse(line.begin(), line.end(), nullptr, false);
  if (!json.is_object()) return WorkloadFormat::kAuto;
  if (json.contains("calls") && json.contains("block_tokens")) return WorkloadFormat::kSessions;
  if (json.contains("calls") && json.contains("n_stages")) return WorkloadFormat::kText2Sql;
  if (json.contains("calls") || json.contains("takt_workload")) return WorkloadFormat::kWorkflow;
  if (json.contains("input_length") || json.contains("hash_ids")) return WorkloadFormat::kMooncake;
  if (json.contains("segments")) return WorkloadFormat::kInferCept;
  return WorkloadFormat::kAuto;
}

}  // namespace takt
