// Learns a graph of agents, and of the calls between them, from records of calls. docs/howto/call_graph.md
#ifndef TAKT_LEARNING_CALL_GRAPH_H_
#define TAKT_LEARNING_CALL_GRAPH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "takt/base/age_list.h"
#include "takt/base/id.h"
#include "takt/base/id_map.h"
#include "takt/base/random.h"
#include "takt/base/slot_table.h"
#include "takt/base/time.h"

namespace takt {

// An LLM call that has ended, as reported by the program that passes messages between agents.
struct CallRecord {
  WorkflowId workflow = {};
  AgentId agent = {};
  AgentId upstream = {};  // agent whose answer led to this call; none: the user's question led to it
  TimePoint start{};  // start of the call's execution, after any wait
  TimePoint end{};

  friend constexpr bool operator==(const CallRecord&, const CallRecord&) = default;
};

// The result for a call once its workflow is over.
struct CallOutcome {
  AgentId agent = {};
  double execution_s = 0;
  // time after the call's start in which some call of the workflow ran; excludes queues and tools
  double remaining_s = 0;
  double wall_s = 0;  // time from the call's start to the end of the workflow
};

// A sequence of calls that followed a call. Agents are indices into CallGraph::nodes().
struct CallPath {
  std::vector<std::uint32_t> agents = {};  // in order of time; parallel calls are sorted; kThen separates the others
  std::uint64_t key = 0;
  std::int64_t count = 0;
  double remaining_s = 0;  // mean remaining time of these calls

  friend bool operator==(const CallPath&, const CallPath&) = default;
};

struct CallNode {
  AgentId agent = {};
  std::int64_t calls = 0;
  std::int64_t first = 0;  // number of calls that the user's question led to
  std::int64_t last = 0;  // number of calls that led to no other call
  double execution_s = 0, remaining_s = 0;  // mean execution time and mean remaining time of the agent's calls [s]
  std::vector<CallPath> paths = {};  // sequences of later calls; at most max_paths
  std::int64_t other_paths = 0;  // number of calls with sequences beyond max_paths

  friend bool operator==(const CallNode&, const CallNode&) = default;
};

struct CallEdge {
  std::uint32_t from = 0, to = 0;
  std::int64_t calls = 0;
  std::int64_t parents = 0;  // number of calls of `from` that led to at least one call of `to`
  std::int64_t feedback = 0;  // number of calls whose agent also made one of their ancestors

  friend constexpr bool operator==(const CallEdge&, const CallEdge&) = default;
};

// Two agents that the same call led to; `a` <= `b`. They are equal if the call led to one agent twice.
struct CallSiblings {
  std::uint32_t from = 0, a = 0, b = 0;
  std::int64_t parallel = 0, sequential = 0;
  std::int64_t undecided = 0;  // number of calls that are too short or too close for the clocks' tolerance

  // Returns true if the calls run in parallel. An overlap in a tenth of the cases suffices, because queues delay
  // parallel calls.
  bool side_by_side() const { return parallel > 0 && 10 * parallel >= parallel + sequential; }
};

// A call that starts only after all calls of a parallel group have ended.
struct CallJoin {
  std::uint32_t from = 0, to = 0;  // agent that calls the group, and agent that waits for the group
  std::vector<std::uint32_t> members = {};  // agents of the group, ascending
  std::int64_t after_all = 0;  // number of calls that began after the whole group, but whose upstream did not end last
  std::int64_t after_last = 0;  // number of calls whose upstream ended last
  std::int64_t before = 0;  // number of calls that began before the group's end or were made once per member
  std::uint32_t upstream = 0;  // upstream of the first such call
  bool varies = false;  // true: other such calls had another upstream

  bool holds() const { return (varies || after_all > 0) && 10 * before <= after_all + after_last; }
  // Returns true if the call may have waited for the group or only for its upstream.
  bool undecided() const { return !holds() && before == 0; }
};

struct CallGraphOptions {
  Duration tolerance = std::chrono::milliseconds(5);  // maximum difference between clocks of hosts
  Duration retire_after = std::chrono::seconds(600);  // time without records after which a workflow is closed
  std::uint32_t max_agents = 8192;  // maximum agents; records of further agents are dropped
  std::uint32_t max_edges = 65536;  // maximum edges; also maximum sibling pairs, and maximum joins
  std::uint32_t max_workflows = 65536;  // maximum open workflows; beyond it, the least recently reported is closed
  std::uint32_t max_calls = 512;  // maximum calls of a workflow; further calls are dropped
  std::uint32_t max_paths = 16;  // maximum paths per agent
  std::uint64_t hash_seed = 0;  // seed of hashes of agents and workflows, as SchedulerOptions::hash_seed
};

// X(name, meaning of one unit)
#define TAKT_CALL_GRAPH_STATS(X)                                                                              \
  X(records, "accepted records")                                                                              \
  X(closed, "workflows that the host closed")                                                                 \
  X(forgotten, "workflows dropped by the host")                                                               \
  X(retired, "workflows closed because they were silent for too long, or too many were open")                 \
  X(late, "records of workflows that had been closed; dropped")                                               \
  X(backwards, "records that end before they start by more than the tolerance, or are 30 years off; dropped") \
  X(unnamed, "records without a workflow; dropped")                                                           \
  X(crowded, "records, edges, siblings and joins for which there was no room; dropped")                       \
  X(repeated, "duplicate records; dropped")                                                                   \
  X(untaken, "outcomes that were not taken in time; dropped")                                                 \
  X(orphans, "calls whose upstream has no earlier record; their edge counts, their parent is unknown")

struct CallGraphStats {
#define TAKT_CALL_GRAPH_STATS_FIELD(name, text) std::int64_t name = 0;
  TAKT_CALL_GRAPH_STATS(TAKT_CALL_GRAPH_STATS_FIELD)
#undef TAKT_CALL_GRAPH_STATS_FIELD

  friend constexpr bool operator==(const CallGraphStats&, const CallGraphStats&) = default;
};

// Records may arrive in any order. When a workflow is over, each call gets a parent: the last call of the upstream
// agent that ended before this call began. A sweep over the spans of a parent's children finds parallel calls (Kairos,
// section 4.2). A join is a call that begins only after all calls of a parallel group. A host that knows a join may
// report the same call once per upstream.
//
// The options bound memory. Deterministic; any input is accepted.
class CallGraph {
 public:
  static constexpr std::uint32_t kThen = kNoSlot;  // value in a path between calls that are not parallel
  static constexpr std::size_t kMaxMembers = 16, kLongestPath = 64;  // maximum agents of a join and of a path

  explicit CallGraph(const CallGraphOptions& options = {}) : options_(options) {
    options_.max_agents = std::clamp(options.max_agents, 1u, 1u << 20);
    options_.max_workflows = std::clamp(options.max_workflows, 1u, 1u << 24);
    options_.max_calls = std::clamp(options.max_calls, 1u, 4096u);
    recent_.resize(options_.max_workflows);
    const auto key = [&](auto&... tables) { (tables.KeyHashes(options.hash_seed), ...); };
    key(nodes_, edges_, siblings_, joins_, open_);
    closed_.SetKey(options.hash_seed);
  }

  // Adds a record received at `now`. Returns true if it is kept.
  bool Add(const CallRecord& record, TimePoint now) {
    now_ = std::max(now_, std::min(now, TimePoint(kFarthest)));
    while (!by_age_.empty() && Between(open_[by_age_.oldest()].last, now_) > options_.retire_after) Retire();
    if (!record.workflow) return Drop(stats_.unnamed);
    const auto far = [](TimePoint t) { return t > TimePoint(kFarthest) || t < Before(TimePoint{}, kFarthest); };
    if (far(record.start) || far(record.end) || record.end < Before(record.start, options_.tolerance)) {
      return Drop(stats_.backwards);
    }
    Slot slot = open_.Find(record.workflow);
    if (slot == kNoSlot) {
      if (closed_.Find(record.workflow.value) != kNoSlot) return Drop(stats_.late);
      if (open_.size() >= options_.max_workflows) Retire();
      slot = Open(record.workflow);
    }
    Workflow& w = open_[slot];
    if (w.calls.size() >= options_.max_calls) return Drop(stats_.crowded);
    const std::uint32_t agent = NodeOf(record.agent);
    if (agent == kThen) return Drop(stats_.crowded);
    ++stats_.records;
    w.calls.push_back({agent, record.upstream, record.start, std::max(record.start, record.end)});
    w.last = now_;
    by_age_.MoveToEnd(open_, slot);
    return true;
  }

  // Closes a workflow: no more records follow. Returns false if it is not open.
  bool Close(WorkflowId workflow) {
    const Slot slot = open_.Find(workflow);
    if (slot == kNoSlot) return false;
    ++stats_.closed;
    Finish(slot);
    return true;
  }

  // Drops an open workflow without learning from it. Returns false if it is not open.
  bool Forget(WorkflowId workflow) {
    const Slot slot = open_.Find(workflow);
    if (slot == kNoSlot) return false;
    ++stats_.forgotten;
    Shut(slot);
    return true;
  }

  // Closes all open workflows.
  void CloseAll() {
    while (!by_age_.empty()) Retire();
  }

  // Calls f(outcome) for each call of the workflows that ended since the previous TakeOutcomes.
  template <class F>
  void TakeOutcomes(F&& f) {
    for (const CallOutcome& outcome : outcomes_) f(outcome);
    outcomes_.clear();
  }

  std::span<const CallNode> nodes() const { return nodes_.records(); }
  std::span<const CallEdge> edges() const { return edges_.records(); }
  std::span<const CallSiblings> siblings() const { return siblings_.records(); }
  std::span<const CallJoin> joins() const { return joins_.records(); }
  std::size_t open() const { return open_.size(); }
  const CallGraphStats& stats() const { return stats_; }
  const CallGraphOptions& options() const { return options_; }

  // Returns the agent's node; kThen if unknown.
  std::uint32_t Find(AgentId agent) const { return nodes_.Find(agent); }

  // Returns the table entries visited by a look-up; for tests.
  std::size_t Looks(WorkflowId workflow) const { return open_.Looks(workflow); }

  // Returns the number of sibling pairs and joins that the records do not determine.
  std::int64_t undecided() const {
    const auto pair = [](const CallSiblings& s) { return s.parallel + s.sequential == 0; };
    const auto join = [](const CallJoin& j) { return j.undecided(); };
    return std::ranges::count_if(siblings(), pair) + std::ranges::count_if(joins(), join);
  }

  // Returns the number of stages on the longest path from each node, including the node. Feedback edges are ignored.
  // Ayo's rank uses these numbers.
  std::vector<std::int32_t> StagesLeft() const {
    std::vector<std::int32_t> left(nodes_.size(), 1);
    const auto n = static_cast<std::int32_t>(nodes_.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (const CallEdge& e : edges()) {
        const std::int32_t through = left[e.to] + 1;
        if (2 * e.feedback > e.calls || through <= left[e.from] || through > n) continue;
        left[e.from] = through;
        moved = true;
      }
    }
    return left;
  }

  // Replaces the graph with saved tables; open workflows are lost.
  void Restore(std::vector<CallNode> nodes, std::vector<CallEdge> edges, std::vector<CallSiblings> siblings,
               std::vector<CallJoin> joins) {
    *this = CallGraph(options_);
    for (CallNode& node : nodes) nodes_.Insert(node.agent, std::move(node));
    for (const CallEdge& e : edges) edges_.Insert(Key(e.from, e.to), e);
    for (const CallSiblings& s : siblings) siblings_.Insert(Key(s.from, s.a, s.b), s);
    for (CallJoin& join : joins) joins_.Insert(Key(join.from, join.to), std::move(join));
  }

 private:
  static constexpr Duration kFarthest{1'000'000'000'000'000'000};  // about 30 years
  static constexpr std::size_t kMostOutcomes = std::size_t{1} << 18;

  struct Call {
    std::uint32_t agent = 0;
    AgentId upstream = {};
    TimePoint start{}, end{};
    // Once the workflow is over:
    std::uint32_t parent = kNoSlot;
    std::uint32_t cluster = 0;  // number of the call's group of overlapping siblings
    std::vector<AgentId> also = {};  // further agents whose answers led to this call
  };
  struct Workflow {
    WorkflowId id = {};
    std::vector<Call> calls = {};
    TimePoint last{};  // time of the newest record
    AgeLink age = {};
  };

  static bool Drop(std::int64_t& count) { return ++count, false; }

  static std::uint64_t Key(std::uint32_t a, std::uint32_t b) { return std::uint64_t{a} << 32 | b; }
  static std::uint64_t Key(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    return std::uint64_t{a} << 42 | std::uint64_t{b} << 21 | c;  // there are at most 2^20 agents
  }

  // ---- workflows --------------------------------------------------------------------------------------------------

  Slot Open(WorkflowId id) {
    const Slot slot = open_.Insert(id);
    Workflow& w = open_[slot];
    w.id = id;
    w.last = now_;
    w.calls.clear();
    by_age_.Append(open_, slot);
    return slot;
  }

  void Retire() {
    ++stats_.retired;
    Finish(by_age_.oldest());
  }

  void Finish(Slot slot) {
    Shut(slot);
    Learn(open_[slot].calls);
  }

  // The calls of the workflow remain until the slot is used again.
  void Shut(Slot slot) {
    by_age_.Remove(open_, slot);
    Workflow& w = open_[slot];
    open_.Erase(slot, w.id);
    // Late records of recently closed workflows are recognized.
    WorkflowId& forgotten = recent_[next_recent_];
    if (forgotten) closed_.Erase(forgotten.value);
    forgotten = w.id;
    closed_.Insert(w.id.value, 0);
    next_recent_ = (next_recent_ + 1) % recent_.size();
  }

  // ---- learning from an ended workflow ----------------------------------------------------------------------------

  void Learn(std::vector<Call>& calls) {
    Order(calls);
    for (std::uint32_t c = 0; c < calls.size(); ++c) FindParent(calls, c);
    const std::vector<std::uint32_t> family = Families(calls);
    for (std::size_t begin = 0; begin < family.size();) {
      std::size_t end = begin + 1;
      while (end < family.size() && SameParent(calls[family[end]], calls[family[begin]])) ++end;
      LearnSiblings(calls, std::span(family).subspan(begin, end - begin));
      begin = end;
    }
    for (std::uint32_t c = 0; c < calls.size(); ++c) LearnEdges(calls, c);
    LearnJoins(calls);
    LearnTimes(calls);
  }

  // Sorts by time; merges repeated records, and turns one call with several upstreams into a join.
  void Order(std::vector<Call>& calls) {
    std::ranges::sort(calls, {}, [](const Call& c) { return std::tuple(c.start, c.end, c.agent, c.upstream.value); });
    std::size_t kept = 0;
    for (Call& c : calls) {
      Call* before = kept > 0 ? &calls[kept - 1] : nullptr;
      if (before != nullptr && before->start == c.start && before->end == c.end && before->agent == c.agent) {
        const AgentId last = before->also.empty() ? before->upstream : before->also.back();
        if (last == c.upstream) ++stats_.repeated;
        else before->also.push_back(c.upstream);
        continue;
      }
      if (&calls[kept] != &c) calls[kept] = std::move(c);
      ++kept;
    }
    calls.resize(kept);
  }

  // Finds the upstream's call that ended last before this call began. If clocks differ too much, finds the call that
  // began last before it.
  void FindParent(std::vector<Call>& calls, std::uint32_t c) {
    Call& call = calls[c];
    if (!call.upstream) return;
    const std::uint32_t agent = Find(call.upstream);
    std::uint32_t ended = kNoSlot, begun = kNoSlot;
    for (std::uint32_t p = 0; p < calls.size() && agent != kThen; ++p) {
      if (p == c || calls[p].agent != agent) continue;
      if (calls[p].start < call.start) begun = p;
      if (calls[p].end > After(call.start, options_.tolerance) || calls[p].start > call.end) continue;
      if (p > c && calls[p].agent == call.agent) continue;  // two simultaneous calls would form a cycle
      if (ended == kNoSlot || calls[p].end >= calls[ended].end) ended = p;
    }
    call.parent = ended != kNoSlot ? ended : begun;
    if (call.parent == kNoSlot) ++stats_.orphans;
    // If spans touch within the tolerance, two calls could each be the other's parent.
    for (std::uint32_t at = call.parent, steps = 0; at != kNoSlot; at = calls[at].parent, ++steps) {
      if (at != c && steps <= calls.size()) continue;
      call.parent = kNoSlot;
      break;
    }
  }

  // Calls whose upstream has no record count as children of one parent per upstream.
  static bool SameParent(const Call& a, const Call& b) { return a.parent == b.parent && a.upstream == b.upstream; }

  // Returns all calls with an upstream, grouped by parent and then sorted by start.
  static std::vector<std::uint32_t> Families(const std::vector<Call>& calls) {
    std::vector<std::uint32_t> family;
    for (std::uint32_t c = 0; c < calls.size(); ++c) {
      if (calls[c].upstream) family.push_back(c);
    }
    std::ranges::sort(family, {},
                      [&](std::uint32_t c) { return std::tuple(calls[c].upstream.value, calls[c].parent, c); });
    return family;
  }

  // Goes through the calls in order of time. A call joins the cluster of earlier calls that it overlaps.
  void LearnSiblings(std::vector<Call>& calls, std::span<const std::uint32_t> children) {
    const std::uint32_t from = NodeOf(calls[children[0]].upstream);
    TimePoint until{};
    std::uint32_t cluster = 0;
    for (std::size_t i = 0; i < children.size(); ++i) {
      Call& call = calls[children[i]];
      if (i > 0 && !(After(call.start, options_.tolerance) < until)) ++cluster;
      call.cluster = cluster;
      until = i > 0 ? std::max(until, call.end) : call.end;
      for (std::size_t j = 0; j < i && from != kThen; ++j) {
        const Call& before = calls[children[j]];
        CallSiblings* pair = SiblingsOf(from, before.agent, call.agent);
        if (pair == nullptr) continue;
        const Duration overlap = Between(call.start, std::min(before.end, call.end));
        const Duration shorter = std::min(Between(before.start, before.end), Between(call.start, call.end));
        if (shorter <= Times(options_.tolerance, 2) && overlap > Times(options_.tolerance, -1)) ++pair->undecided;
        else ++(overlap > options_.tolerance ? pair->parallel : pair->sequential);
      }
    }
  }

  void LearnEdges(const std::vector<Call>& calls, std::uint32_t c) {
    const Call& call = calls[c];
    CallNode& node = nodes_[call.agent];
    ++node.calls;
    if (!call.upstream) ++node.first;
    const auto leads = [&](const Call& other) { return other.parent == c; };
    if (std::ranges::none_of(calls, leads)) ++node.last;
    LearnEdge(calls, c, call.upstream);
    for (const AgentId upstream : call.also) LearnEdge(calls, c, upstream);
  }

  void LearnEdge(const std::vector<Call>& calls, std::uint32_t c, AgentId upstream) {
    if (!upstream) return;
    const Call& call = calls[c];
    const std::uint32_t from = NodeOf(upstream);
    CallEdge* edge = from == kThen ? nullptr : EdgeOf(from, call.agent);
    if (edge == nullptr) {
      ++stats_.crowded;
      return;
    }
    ++edge->calls;
    bool sibling = false, back = from == call.agent;
    for (std::uint32_t o = 0; o < c; ++o) {
      sibling |= calls[o].parent == call.parent && calls[o].upstream == upstream && calls[o].agent == call.agent;
    }
    if (!sibling) ++edge->parents;
    for (std::uint32_t at = call.parent; at != kNoSlot; at = calls[at].parent) back |= calls[at].agent == call.agent;
    if (back) ++edge->feedback;
  }

  // Learns joins from calls whose parent ran in parallel with others.
  void LearnJoins(const std::vector<Call>& calls) {
    for (std::uint32_t c = 0; c < calls.size(); ++c) {
      const Call& call = calls[c];
      if (call.parent == kNoSlot) continue;
      const Call& parent = calls[call.parent];
      if (!parent.upstream) continue;
      const auto beside = [&](const Call& o) { return SameParent(o, parent) && o.cluster == parent.cluster; };
      if (std::ranges::count_if(calls, beside) < 2) continue;
      const std::uint32_t from = Find(parent.upstream);
      CallJoin* join = from == kThen ? nullptr : JoinOf(from, call.agent);
      if (join == nullptr) continue;
      TimePoint last = TimePoint::min();
      bool one_of_several = false;
      for (std::uint32_t o = 0; o < calls.size(); ++o) {
        if (beside(calls[o])) {
          last = std::max(last, calls[o].end);
          const auto at = std::ranges::lower_bound(join->members, calls[o].agent);
          const bool known = at != join->members.end() && *at == calls[o].agent;
          if (!known && join->members.size() < kMaxMembers) join->members.insert(at, calls[o].agent);
        }
        one_of_several |= o != c && calls[o].agent == call.agent && calls[o].parent != kNoSlot &&
                          calls[o].parent != call.parent && beside(calls[calls[o].parent]);
      }
      if (join->after_all + join->after_last + join->before == 0) join->upstream = parent.agent;
      join->varies |= join->upstream != parent.agent || !call.also.empty() || join->members.size() == 1;
      if (one_of_several || After(call.start, options_.tolerance) < last) ++join->before;
      else ++(After(parent.end, options_.tolerance) < last ? join->after_all : join->after_last);
    }
  }

  void LearnTimes(const std::vector<Call>& calls) {
    if (calls.empty()) return;
    TimePoint end = TimePoint::min();
    for (const Call& c : calls) end = std::max(end, c.end);
    std::vector<std::pair<TimePoint, TimePoint>> spans;  // periods in which some call runs
    for (const Call& c : calls) {
      if (!spans.empty() && c.start <= spans.back().second) spans.back().second = std::max(spans.back().second, c.end);
      else spans.emplace_back(c.start, c.end);
    }
    std::vector<Duration> after(calls.size());
    Duration later{0};
    for (std::size_t i = calls.size(), s = spans.size(); i-- > 0;) {
      while (spans[s - 1].first > calls[i].start) --s, later = Sum(later, Between(spans[s].first, spans[s].second));
      after[i] = Sum(later, Between(calls[i].start, spans[s - 1].second));
    }
    for (std::uint32_t c = 0; c < calls.size(); ++c) {
      const double execution = ToSeconds(Between(calls[c].start, calls[c].end)), remaining = ToSeconds(after[c]);
      CallNode& node = nodes_[calls[c].agent];
      const auto n = static_cast<double>(node.calls);
      node.execution_s += (execution - node.execution_s) / n;
      node.remaining_s += (remaining - node.remaining_s) / n;
      LearnPath(calls, c, remaining);
      if (outcomes_.size() == kMostOutcomes) ++stats_.untaken;
      else outcomes_.push_back({node.agent, execution, remaining, ToSeconds(Between(calls[c].start, end))});
    }
  }

  void LearnPath(const std::vector<Call>& calls, std::uint32_t c, double remaining) {
    way_.clear();
    std::uint64_t key = 0;
    TimePoint until{};
    std::size_t begin = 0;
    below_.assign(calls.size(), false);
    below_[c] = true;
    const auto close = [&] {
      std::sort(way_.begin() + static_cast<std::ptrdiff_t>(begin), way_.end());
      for (std::size_t i = begin; i < way_.size(); ++i) key = Mix64(key ^ (way_[i] + 1));
    };
    for (std::uint32_t o = 0; o < calls.size(); ++o) {
      // Parents usually precede their children in `calls`; others are skipped.
      if (o == c || calls[o].parent == kNoSlot || !below_[calls[o].parent]) continue;
      below_[o] = true;
      if (!way_.empty() && !(After(calls[o].start, options_.tolerance) < until)) {
        close();
        way_.push_back(kThen);
        key = Mix64(key);
        begin = way_.size();
      }
      until = way_.empty() ? calls[o].end : std::max(until, calls[o].end);
      way_.push_back(calls[o].agent);
    }
    close();
    CallNode& node = nodes_[calls[c].agent];
    auto path = std::ranges::find(node.paths, key, &CallPath::key);
    if (path == node.paths.end()) {
      if (node.paths.size() >= options_.max_paths) {
        ++node.other_paths;
        return;
      }
      if (way_.size() > kLongestPath) way_.resize(kLongestPath);
      path = node.paths.insert(path, {.agents = way_, .key = key});
    }
    ++path->count;
    path->remaining_s += (remaining - path->remaining_s) / static_cast<double>(path->count);
  }

  // ---- tables -----------------------------------------------------------------------------------------------------

  // Returns the agent's node, new if necessary; kThen if there is no room.
  std::uint32_t NodeOf(AgentId agent) {
    const Slot known = nodes_.Find(agent);
    if (known != kNoSlot || nodes_.size() >= options_.max_agents) return known;
    return nodes_.Insert(agent, {.agent = agent});
  }

  CallEdge* EdgeOf(std::uint32_t from, std::uint32_t to) {
    return At(edges_, Key(from, to), CallEdge{.from = from, .to = to});
  }
  CallSiblings* SiblingsOf(std::uint32_t from, std::uint32_t a, std::uint32_t b) {
    if (a > b) std::swap(a, b);
    return At(siblings_, Key(from, a, b), CallSiblings{.from = from, .a = a, .b = b});
  }
  CallJoin* JoinOf(std::uint32_t from, std::uint32_t to) {
    return At(joins_, Key(from, to), CallJoin{.from = from, .to = to});
  }

  template <class T>
  T* At(IdTable<std::uint64_t, T>& table, std::uint64_t key, T fresh) {
    if (T* known = table.Get(key)) return known;
    if (table.size() >= options_.max_edges) return ++stats_.crowded, nullptr;
    return &table[table.Insert(key, std::move(fresh))];
  }

  CallGraphOptions options_;
  IdTable<AgentId, CallNode> nodes_;
  IdTable<std::uint64_t, CallEdge> edges_;
  IdTable<std::uint64_t, CallSiblings> siblings_;
  IdTable<std::uint64_t, CallJoin> joins_;

  IdTable<WorkflowId, Workflow> open_;
  IdMap closed_;
  std::vector<WorkflowId> recent_;  // ring buffer of the most recently closed workflows
  std::size_t next_recent_ = 0;
  AgeList by_age_;
  TimePoint now_ = Before(TimePoint{}, kFarthest);
  std::vector<CallOutcome> outcomes_;
  std::vector<std::uint32_t> way_;
  std::vector<bool> below_;
  CallGraphStats stats_;
};

}  // namespace takt

#endif  // TAKT_LEARNING_CALL_GRAPH_H_
