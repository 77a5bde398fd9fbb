// The formats with one JSON object per line: Mooncake's and takt's own.
#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "workload/format.h"

namespace takt {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMaxTokens = kMaxContextTokens / 2;
constexpr std::size_t kMaxCalls = 100'000;     // of one workflow
constexpr std::size_t kMaxLinks = 10'000'000;  // between them

std::string Shown(const Json& value) {
  if (value.is_structured()) return fmt::format("an {}", value.type_name());
  return value.is_string() ? Quoted(value.get_ref<const std::string&>()) : value.dump();
}

// Reads the members of one JSON object. The first fault is kept, with its path, and whatever is read after it is
// harmless: ask for everything, then look at the fault once.
class Members {
 public:
  Members(const Json& object, std::string path, absl::Status& fault)
      : object_(object), path_(std::move(path)), fault_(fault) {
    if (!object.is_object()) Fault("", Shown(object) + " is not an object");
  }

  const Json* Find(const char* key) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }

  // What has no `otherwise` must be there.
  std::int64_t Whole(const char* key, std::int64_t least, std::int64_t most,
                     std::optional<std::int64_t> otherwise = {}) {
    const Json* value = Find(key, otherwise.has_value());
    if (value == nullptr) return otherwise.value_or(least);
    if (!value->is_number_integer()) return Fault(key, Shown(*value) + " is not a whole number"), least;
    const bool huge = value->is_number_unsigned() && value->get<std::uint64_t>() > std::uint64_t{INT64_MAX};
    const std::int64_t whole = huge ? INT64_MAX : value->get<std::int64_t>();
    if (whole >= least && whole <= most) return whole;
    if (whole > most) return Fault(key, fmt::format("{} is above {}", Shown(*value), most)), least;
    return Fault(key, Shown(*value) + (least == 0 ? " is negative" : fmt::format(" is below {}", least))), least;
  }

  // A time in units of one second over `per_second`.
  Duration Time(const char* key, std::int64_t per_second, std::optional<Duration> otherwise = {}) {
    constexpr Duration kZero{0};
    const Json* value = Find(key, otherwise.has_value());
    if (value == nullptr) return otherwise.value_or(kZero);
    if (!value->is_number()) return Fault(key, Shown(*value) + " is not a number"), kZero;
    const double time = value->get<double>();
    const std::int64_t most = kMaxWorkloadTime / std::chrono::seconds(1) * per_second;
    if (time < 0) return Fault(key, Shown(*value) + " is negative"), kZero;
    if (time > static_cast<double>(most)) return Fault(key, fmt::format("{} is above {}", Shown(*value), most)), kZero;
    return FromSeconds(time / static_cast<double>(per_second));
  }

  std::string_view Text(const char* key) {
    const Json* value = Find(key, true);
    if (value == nullptr) return "";
    if (!value->is_string()) return Fault(key, Shown(*value) + " is not a string"), "";
    return value->get_ref<const std::string&>();
  }

  std::span<const Json> Array(const char* key, bool optional = true) {
    const Json* value = Find(key, optional);
    if (value == nullptr) return {};
    if (!value->is_array()) return Fault(key, Shown(*value) + " is not an array"), std::span<const Json>();
    return value->get_ref<const Json::array_t&>();
  }

  void Hashes(const char* key, std::vector<std::uint64_t>& hashes) {
    hashes.clear();
    for (const Json& hash : Array(key)) {
      if (!hash.is_number_unsigned()) return Fault(key, Shown(hash) + " is not a whole number from 0 to 2^64-1");
      hashes.push_back(hash.get<std::uint64_t>());
    }
  }

  // Any other key is most likely a misspelt one.
  void Only(std::initializer_list<std::string_view> known) {
    if (!object_.is_object()) return;
    for (const auto& [key, value] : object_.items()) {
      if (std::ranges::find(known, key) != known.end()) continue;
      return Fault("", fmt::format("unknown key {}; known are {}", Quoted(key), fmt::join(known, ", ")));
    }
  }

  void Fault(const std::string& key, const std::string& what) {
    if (!fault_.ok()) return;
    const std::string path = path_ + (path_.empty() || key.empty() ? "" : ".") + key;
    fault_ = path.empty() ? absl::InvalidArgumentError(what) : BadField(path, what);
  }

 private:
  const Json* Find(const char* key, bool optional) {
    const Json* value = Find(key);
    if (value == nullptr && !optional) Fault(key, "is missing");
    return value;
  }

  const Json& object_;
  std::string path_;
  absl::Status& fault_;
};

// Where a line stops being JSON; the parser that builds values keeps that to itself.
struct FaultFinder : Json::json_sax_t {
  std::size_t position = 0;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(Json::number_integer_t) override { return true; }
  bool number_unsigned(Json::number_unsigned_t) override { return true; }
  bool number_float(Json::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(std::string&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    position = at;
    return false;
  }
};

absl::Status NotJson(std::string_view line) {
  FaultFinder finder;
  Json::sax_parse(line.begin(), line.end(), &finder);
  const std::size_t from = finder.position > 20 ? finder.position - 20 : 0;
  return absl::InvalidArgumentError(
      fmt::format("column {}: not valid JSON near {}", finder.position, Quoted(line.substr(from, 40))));
}

class JsonParser : public LineParser {
 public:
  explicit JsonParser(WorkloadBuilder& builder) : builder_(builder) {}

  absl::Status Header(std::string_view) final { return absl::OkStatus(); }

  absl::Status Parse(std::string_view line) final {
    const Json json = Json::parse(line.begin(), line.end(), nullptr, false);
    return json.is_discarded() ? NotJson(line) : Object(json);
  }

 protected:
  virtual absl::Status Object(const Json& json) = 0;

  WorkloadBuilder& builder_;
};

class MooncakeParser : public JsonParser {
 public:
  using JsonParser::JsonParser;

  absl::Status Object(const Json& json) override {
    absl::Status fault;
    Members line(json, "", fault);
    const Duration arrival = line.Time("timestamp", 1000);
    const std::int64_t prompt = line.Whole("input_length", 0, kMaxTokens);
    const std::int64_t output = line.Whole("output_length", 0, kMaxTokens);
    line.Hashes("hash_ids", hashes_);
    constexpr std::int64_t kBlock = 512;
    const auto blocks = static_cast<std::size_t>((prompt + kBlock - 1) / kBlock);
    if (hashes_.size() > blocks) {
      line.Fault("hash_ids", fmt::format("{} blocks of 512 tokens, but the input has {}", hashes_.size(), blocks));
    }
    if (fault.ok()) builder_.Add(TimePoint(arrival), AtLeastOne(prompt), AtLeastOne(output), 0, 0, hashes_);
    return fault;
  }

 private:
  std::vector<std::uint64_t> hashes_;
};

class WorkflowParser : public JsonParser {
 public:
  using JsonParser::JsonParser;

  absl::Status Object(const Json& json) override {
    absl::Status fault;
    Members line(json, "", fault);
    if (line.Find("takt_workload") != nullptr) return FileHeader(line, fault);
    line.Only({"id", "class", "arrival_s", "deadline_s", "tenant", "priority", "calls"});
    WorkloadWorkflow head;
    head.arrival = TimePoint(line.Time("arrival_s", 1));
    head.deadline = line.Time("deadline_s", 1, Duration::max());
    head.tenant = static_cast<std::uint32_t>(line.Whole("tenant", 0, UINT32_MAX, 0));
    head.priority = static_cast<std::int32_t>(line.Whole("priority", INT32_MIN, INT32_MAX, 0));
    head.name = builder_.Name(line.Text("class"));
    const std::span<const Json> calls = line.Array("calls", false);
    if (calls.empty()) line.Fault("calls", "there is none");
    if (calls.size() > kMaxCalls) line.Fault("calls", fmt::format("more than {}", kMaxCalls));
    if (!fault.ok()) return fault;
    std::vector<CallDraft> drafts;
    for (const Json& call : calls) drafts.push_back(Call(call, fmt::format("calls[{}]", drafts.size()), fault));
    links_ = 0;
    for (std::size_t i = 0; i < calls.size() && fault.ok(); ++i) Link(calls[i], i, drafts, fault);
    return fault.ok() ? builder_.Add(head, drafts) : fault;
  }

 private:
  absl::Status FileHeader(Members& line, absl::Status& fault) {
    line.Only({"takt_workload", "name", "prefix_block_tokens"});
    line.Whole("takt_workload", 1, 1);
    Workload& w = builder_.workload();
    const auto block =
        static_cast<std::int32_t>(line.Whole("prefix_block_tokens", 1, kMaxContextTokens, w.prefix_block_tokens));
    if (!w.workflows.empty()) line.Fault("takt_workload", "belongs on the first line");
    const std::string_view name = line.Text("name");
    if (!fault.ok()) return fault;
    w.prefix_block_tokens = block;
    if (!name.empty()) w.name = name;
    return fault;
  }

  CallDraft Call(const Json& json, const std::string& path, absl::Status& fault) {
    Members members(json, path, fault);
    members.Only({"stage", "agent", "prompt", "output", "after", "delay_s", "tools", "prefix"});
    CallDraft draft;
    draft.call.stage = builder_.Name(members.Text("stage"));
    draft.call.agent = builder_.Name(members.Text("agent"));
    draft.call.prompt_tokens = AtLeastOne(members.Whole("prompt", 0, kMaxTokens));
    draft.call.output_tokens = AtLeastOne(members.Whole("output", 0, kMaxTokens));
    draft.call.delay = members.Time("delay_s", 1, Duration::zero());
    members.Hashes("prefix", draft.hashes);
    for (const Json& tool : members.Array("tools")) {
      draft.tools.push_back(Tool(tool, fmt::format("{}.tools[{}]", path, draft.tools.size()), fault));
    }
    return draft;
  }

  WorkloadTool Tool(const Json& json, const std::string& path, absl::Status& fault) {
    Members members(json, path, fault);
    members.Only({"after", "duration_s", "returned", "class"});
    WorkloadTool tool;
    tool.after_tokens = static_cast<std::int32_t>(members.Whole("after", 1, kMaxTokens));
    tool.duration = members.Time("duration_s", 1);
    tool.returned_tokens = static_cast<std::int32_t>(members.Whole("returned", 0, kMaxTokens, 0));
    tool.name = builder_.Name(members.Text("class"));
    return tool;
  }

  // `after` names calls by their position in the line, or all calls of a stage by its name.
  void Link(const Json& json, std::size_t self, std::vector<CallDraft>& drafts, absl::Status& fault) {
    Members members(json, fmt::format("calls[{}]", self), fault);
    std::vector<std::uint32_t>& links = drafts[self].after;
    for (const Json& after : members.Array("after")) {
      const std::size_t before = links.size();
      if (after.is_string()) AddStage(after.get_ref<const std::string&>(), drafts, links);
      if (after.is_number_unsigned() && after.get<std::uint64_t>() < drafts.size()) links.push_back(after);
      links_ += links.size() - before;
      if (links_ > kMaxLinks) return members.Fault("after", fmt::format("more than {} in one workflow", kMaxLinks));
      if (links.size() > before) continue;
      return members.Fault("after", fmt::format("{} is none of the {} calls, by position from 0 or by stage",
                                                Shown(after), drafts.size()));
    }
  }

  void AddStage(const std::string& name, const std::vector<CallDraft>& drafts, std::vector<std::uint32_t>& links) {
    for (std::uint32_t i = 0; i < drafts.size(); ++i) {
      if (builder_.workload().names[drafts[i].call.stage] == name) links.push_back(i);
    }
  }

  std::size_t links_ = 0;  // of the workflow at hand: a stage's name stands for many
};

}  // namespace

std::unique_ptr<LineParser> MakeJsonParser(WorkloadFormat format, WorkloadBuilder& builder) {
  if (format == WorkloadFormat::kMooncake) return std::make_unique<MooncakeParser>(builder);
  return std::make_unique<WorkflowParser>(builder);
}

WorkloadFormat DetectJson(std::string_view line) {
  const Json json = Json::parse(line.begin(), line.end(), nullptr, false);
  if (!json.is_object()) return WorkloadFormat::kAuto;
  if (json.contains("calls") || json.contains("takt_workload")) return WorkloadFormat::kWorkflow;
  if (json.contains("input_length") || json.contains("hash_ids")) return WorkloadFormat::kMooncake;
  return WorkloadFormat::kAuto;
}

}  // namespace takt
