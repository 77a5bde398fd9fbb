// Sessions of coding agents: sequential calls with the ids of their prompts' blocks, and gaps between them.
#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "workload/format.h"
#include "workload/json_members.h"

namespace takt {
namespace {

class SessionsParser : public LineParser {
 public:
  SessionsParser(const ReadOptions& options, WorkloadBuilder& builder)
      : builder_(builder), arrivals_(options), max_tokens_(options.max_session_tokens) {}

  bool has_times() const override { return false; }

  absl::Status Parse(std::string_view text) override {
    const absl::StatusOr<Json> json = ParseJsonLine(text);
    if (!json.ok()) return json.status();
    absl::Status fault;
    Members line(*json, "", fault);
    line.Only({"id", "model", "block_tokens", "tools", "system", "subagents", "calls"});
    const auto block = static_cast<std::int32_t>(line.Whole("block_tokens", 1, kMaxContextTokens));
    if (block_tokens_ && block != *block_tokens_) {
      line.Fault("block_tokens", fmt::format("{} is invalid; expected {}, as in earlier lines", block, *block_tokens_));
    }
    const WorkloadWorkflow head{.arrival = arrivals_.now(), .name = builder_.Name(line.Text("model"))};
    const std::vector<CallDraft> drafts = Calls(line, fault);
    if (!fault.ok()) return fault;
    const auto is_long = [this](const CallDraft& draft) { return draft.call.prompt_tokens > max_tokens_; };
    if (std::ranges::any_of(drafts, is_long)) return ++long_sessions_, absl::OkStatus();
    const std::int32_t before = std::exchange(builder_.workload().prefix_block_tokens, block);
    absl::Status added = builder_.Add(head, drafts);
    if (!added.ok()) return builder_.workload().prefix_block_tokens = before, added;
    block_tokens_ = block;
    arrivals_.Next();
    return added;
  }

 private:
  struct Agent {
    std::string_view kind = {};
    std::size_t calls = 0, calls_left = 0;
    std::uint32_t last = 0;  // position of its last call so far
  };
  using Agents = std::map<std::int64_t, Agent>;  // by branch; 0 is the main agent

  // Recorded data of a call that its draft does not hold. Times count from the session's start.
  struct Recorded {
    Agent* agent = nullptr;
    Duration start{0}, end{0};
    std::optional<Duration> gap = {};  // since the previous call of the same agent
  };

  std::vector<CallDraft> Calls(Members& line, absl::Status& fault) {
    Agents agents = {{0, {}}};
    for (const Json& json : line.Array("subagents")) {
      Members agent(json, fmt::format("subagents[{}]", agents.size() - 1), fault);
      agent.Only({"agent", "kind", "t", "s", "tools", "system"});
      const std::int64_t branch = agent.Whole("agent", 1, UINT16_MAX);
      if (!agents.try_emplace(branch, Agent{agent.Text("kind")}).second) {
        agent.Fault("agent", fmt::format("{} is repeated; expected once", branch));
      }
    }
    const std::span<const Json> calls = line.Array("calls", false);
    if (calls.empty()) line.Fault("calls", "is empty; expected a call");
    if (calls.size() > kMaxCalls)
      line.Fault("calls", fmt::format("has too many entries; expected at most {}", kMaxCalls));
    std::vector<CallDraft> drafts;
    std::vector<Recorded> recorded;
    for (const Json& json : calls) {
      if (!fault.ok()) return {};
      Members call(json, fmt::format("calls[{}]", drafts.size()), fault);
      drafts.push_back(Call(call));
      recorded.push_back(Record(call, agents, drafts.back()));
    }
    if (fault.ok()) Link(agents.at(0), recorded, drafts);
    return drafts;
  }

  CallDraft Call(Members& call) {
    call.Only({"t", "in", "out", "blocks", "next", "from", "think_s", "api_s", "ttft_s", "agent", "model"});
    CallDraft draft;
    draft.call.prompt_tokens = AtLeastOne(call.Whole("in", 0, kMostLineTokens));
    draft.call.output_tokens = AtLeastOne(call.Whole("out", 0, kMostLineTokens));
    draft.call.stage = builder_.Name(call.Text("from"));
    draft.call.branch = static_cast<std::uint16_t>(call.Whole("agent", 0, UINT16_MAX, 0));
    draft.call.then = call.Named("next", TurnEnd::kUnknown);
    call.Runs("blocks", draft.runs);
    return draft;
  }

  Recorded Record(Members& call, Agents& agents, CallDraft& draft) {
    Recorded recorded;
    recorded.start = call.Time("t", 1);
    recorded.end = Sum(recorded.start, call.Time("api_s", 1, Duration{0}));
    if (call.Find("think_s") != nullptr) recorded.gap = call.Time("think_s", 1);
    const auto agent = agents.find(draft.call.branch);
    if (agent == agents.end()) {
      call.Fault("agent", fmt::format("{} is unknown; expected a subagent", draft.call.branch));
      return recorded;
    }
    recorded.agent = &agent->second;
    draft.call.agent = builder_.Name(agent->second.kind);
    ++agent->second.calls_left;
    return recorded;
  }

  // Sets the predecessors and delays of calls. A call follows the previous call of the same agent. A sub-agent's first
  // call follows the main agent's previous call in the file. After a sub-agent's last call the main agent waits for it.
  // The recorded gap then includes the sub-agent's time, so the delay is computed from the times of the calls. A
  // missing gap is computed likewise.
  static void Link(const Agent& main, std::vector<Recorded>& recorded, std::vector<CallDraft>& drafts) {
    std::vector<std::uint32_t> ended;  // last calls of sub-agents that the main agent has not waited for yet
    for (std::uint32_t i = 0; i < drafts.size(); ++i) {
      const Recorded& call = recorded[i];
      Agent& agent = *call.agent;
      std::vector<std::uint32_t>& after = drafts[i].after;
      const Agent& before = agent.calls > 0 ? agent : main;
      if (before.calls > 0) after.push_back(before.last);
      bool by_clock = agent.calls == 0 || !call.gap;
      if (&agent == &main && !ended.empty()) {
        after.insert(after.end(), ended.begin(), ended.end());
        ended.clear();
        by_clock = true;
      }
      Duration end{0};
      for (const std::uint32_t p : after) end = std::max(end, recorded[p].end);
      if (!after.empty())
        drafts[i].call.delay = by_clock ? std::max(Difference(call.start, end), Duration{0}) : *call.gap;
      ++agent.calls;
      agent.last = i;
      if (--agent.calls_left == 0 && &agent != &main) ended.push_back(i);
    }
  }

  WorkloadBuilder& builder_;
  GeneratedArrivals arrivals_;
  std::int64_t max_tokens_;
  std::optional<std::int32_t> block_tokens_;  // of the file
};

}  // namespace

std::unique_ptr<LineParser> MakeSessionsParser(const ReadOptions& options, WorkloadBuilder& builder) {
  return std::make_unique<SessionsParser>(options, builder);
}

}  // namespace takt
