#include "takt/learning/agent_learner.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <optional>
#include <set>

#include "fmt/format.h"

namespace takt {
namespace {

// Each line of the file is a word and numbers. The first line is "takt_learnt VERSION CHECKSUM" of all later lines.
constexpr std::string_view kLearntMagic = "takt_learnt";
constexpr std::uint64_t kLearntVersion = 1;

// FNV-1a.
std::uint64_t ChecksumOf(std::string_view text) {
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return sum;
}

void AppendHex(std::string& out, std::string_view bytes) {
  out += 'x';  // makes the empty name a word, too
  for (const char c : bytes) fmt::format_to(std::back_inserter(out), "{:02x}", static_cast<unsigned char>(c));
}

void Append(std::string& out, const LatencyDistribution& d) {
  const auto& sketch = d.sketch();
  const bool empty = sketch.count() == 0;
  fmt::format_to(std::back_inserter(out), "latency {} {} {} {} {} {} {} {}", d.observed(), d.drifts(),
                 d.converged() ? 1 : 0, sketch.count(), sketch.mean(), sketch.deviation(), empty ? 0 : sketch.least(),
                 empty ? 0 : sketch.most());
  const auto counts = sketch.histogram().counts();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 0) fmt::format_to(std::back_inserter(out), " {} {}", i, counts[i]);
  }
  out += '\n';
}

constexpr double kMostCount = 1e15;  // limit for counts and seconds, so that sums of a few fit
constexpr double kAnyId = std::numeric_limits<double>::infinity();

// Words of a line, and its first fault.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  bool done() const { return rest_.empty(); }
  const std::string& fault() const { return fault_; }
  bool Wrong(std::string fault) {
    if (fault_.empty()) fault_ = std::move(fault);
    return false;
  }

  std::string_view Word() {
    const std::size_t space = rest_.find(' ');
    const std::string_view word = rest_.substr(0, space);
    rest_ = space == std::string_view::npos ? std::string_view() : rest_.substr(space + 1);
    return word;
  }
  // Returns false if the number is missing or outside [0, most].
  template <class Number>
  bool Read(const char* field, Number& number, double most = kMostCount) {
    const std::string_view word = Word();
    if (word.empty()) return Wrong(fmt::format("{} is missing", field));
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    const bool whole = error == std::errc() && end == word.data() + word.size();
    if (whole && static_cast<double>(number) >= 0 && static_cast<double>(number) <= most) return true;
    return Wrong(fmt::format("{} is '{}'; expected a number from 0 to {}", field, word.substr(0, 32), most));
  }

 private:
  std::string_view rest_;
  std::string fault_;
};

struct Learnt {
  AgentNames names;
  LatencyProfile profile;
  std::vector<CallNode> nodes;
  std::vector<CallEdge> edges;
  std::vector<CallSiblings> siblings;
  std::vector<CallJoin> joins;
};

// Reads the lines after the first. Each function returns the fault, if any.
class Reader {
 public:
  Reader(const CallGraphOptions& options, Learnt& out) : options_(options), out_(out) {}

  std::optional<std::string> Line(std::int64_t number, std::string_view line) {
    line_ = number;
    Words words(line);
    const std::string_view what = words.Word();
    bool fine = false;
    if (what == "name") fine = Name(words);
    else if (what == "agent") fine = Agent(words);
    else if (what == "latency") fine = Latency(words);
    else if (what == "node") fine = Node(words);
    else if (what == "path") fine = Path(words);
    else if (what == "edge") fine = Edge(words);
    else if (what == "siblings") fine = Siblings(words);
    else if (what == "join") fine = Join(words);
    else return fmt::format("line {}: '{}' is unknown; expected a kind of line", line_, what.substr(0, 32));
    named_ |= what != "name";
    if (fine && !words.done()) fine = words.Wrong("the line has too many words");
    if (fine) return std::nullopt;
    return fmt::format("line {}: {}: {}", line_, what, words.fault());
  }

  // Checks rules that need all lines.
  std::optional<std::string> End() const {
    if (farthest_ == 0 || farthest_ < out_.nodes.size()) return std::nullopt;
    return fmt::format("line {}: path: its agent is node {}; expected one of {}", farthest_line_, farthest_,
                       out_.nodes.size());
  }

 private:
  bool ReadAgent(Words& words, AgentId& agent) {
    return words.Read("agent", agent.value, kAnyId);  // hosts may also use numbers without a name
  }
  bool ReadNode(Words& words, const char* field, std::uint32_t& node) {
    if (!words.Read(field, node)) return false;
    return node < out_.nodes.size() ||
           words.Wrong(fmt::format("{} is node {}; expected one of {}", field, node, out_.nodes.size()));
  }
  template <class T>
  bool Keep(Words& words, std::vector<T>& all, T one, std::size_t most, const char* option) {
    if (all.size() >= most)
      return words.Wrong(fmt::format("there are too many; expected at most {}, the value of {}", most, option));
    all.push_back(std::move(one));
    return true;
  }

  bool Name(Words& words) {
    if (named_) return words.Wrong("a name comes after other lines; expected all names first");
    std::string_view hex = words.Word();
    std::string name;
    if (hex.size() % 2 != 1 || hex[0] != 'x')
      return words.Wrong("the name is invalid; expected x and two digits per byte");
    for (hex.remove_prefix(1); !hex.empty(); hex.remove_prefix(2)) {
      unsigned char byte = 0;
      const auto [end, error] = std::from_chars(hex.data(), hex.data() + 2, byte, 16);
      if (error != std::errc() || end != hex.data() + 2)
        return words.Wrong("the name is invalid; expected x and two digits per byte");
      name += static_cast<char>(byte);
    }
    const std::size_t before = out_.names.size();
    const AgentId id = out_.names.Intern(name);
    if (!id) return words.Wrong("the name is too long, or there are too many names");
    return id.value == before + 1 || words.Wrong("the name is repeated");
  }

  bool Agent(Words& words) {
    AgentId agent;
    std::int32_t all = 0;
    if (!words.Read("all", all, 1) || !ReadAgent(words, agent)) return false;
    if (all == 0 && out_.profile.Find(agent) != nullptr) return words.Wrong("the agent is repeated");
    latency_ = all == 1 ? &out_.profile.RestoreAll() : out_.profile.Restore(agent);
    next_is_remaining_ = false;
    return latency_ != nullptr || words.Wrong("there are more agents than profile.max_agents");
  }

  bool Latency(Words& words) {
    if (latency_ == nullptr) return words.Wrong("no agent precedes it");
    std::int64_t observed = 0, drifts = 0, count = 0;
    std::int32_t converged = 0;
    double mean = 0, deviation = 0, least = 0, most = 0;
    if (!words.Read("observed", observed) || !words.Read("drifts", drifts)) return false;
    if (!words.Read("converged", converged, 1) || !words.Read("count", count, 1e12)) return false;
    if (!words.Read("mean", mean) || !words.Read("deviation", deviation)) return false;
    if (!words.Read("least", least) || !words.Read("most", most)) return false;
    QuantileSketch<LogHistogram> sketch(LatencyDistribution::Bins());
    const std::size_t bins = sketch.histogram().counts().size();
    std::int64_t units = 0;
    for (std::size_t bin = 0, next = 0; !words.done(); next = bin + 1) {
      std::int64_t in_bin = 0;
      if (!words.Read("bin", bin, static_cast<double>(bins - 1)) || !words.Read("in_bin", in_bin, 1e12)) return false;
      if (bin < next) return words.Wrong("bins must ascend");
      sketch.RestoreBin(bin, in_bin);
      units += in_bin;
    }
    if ((count == 0) != (units == 0)) return words.Wrong("count and bins do not match");
    if (least > most) return words.Wrong("least is above most");
    if (count > 0) sketch.Restore(Moments::From(count, mean, deviation), least, most);
    LatencyDistribution& d = next_is_remaining_ ? latency_->remaining : latency_->execution;
    d.Restore(sketch, observed, drifts, converged == 1);
    if (next_is_remaining_) latency_ = nullptr;
    next_is_remaining_ = true;
    return true;
  }

  bool Node(Words& words) {
    CallNode n;
    if (!ReadAgent(words, n.agent)) return false;
    if (!seen_nodes_.insert(n.agent.value).second) return words.Wrong("the agent is repeated");
    return words.Read("calls", n.calls) && words.Read("first", n.first) && words.Read("last", n.last) &&
           words.Read("execution_s", n.execution_s) && words.Read("remaining_s", n.remaining_s) &&
           words.Read("other_paths", n.other_paths) &&
           Keep(words, out_.nodes, std::move(n), options_.max_agents, "graph.max_agents");
  }

  // A path may contain nodes of later lines.
  bool Path(Words& words) {
    if (out_.nodes.empty()) return words.Wrong("no node precedes it");
    std::vector<CallPath>& paths = out_.nodes.back().paths;
    CallPath p;
    if (!words.Read("key", p.key, kAnyId) || !words.Read("count", p.count)) return false;
    if (!words.Read("remaining_s", p.remaining_s)) return false;
    if (std::ranges::count(paths, p.key, &CallPath::key) > 0) return words.Wrong("the key is repeated");
    while (!words.done()) {
      std::uint32_t agent = 0;
      if (!words.Read("agent", agent)) return false;
      if (p.agents.size() == CallGraph::kLongestPath) return words.Wrong("the path is too long");
      p.agents.push_back(agent);
      if (agent != CallGraph::kThen && agent > farthest_) farthest_ = agent, farthest_line_ = line_;
    }
    return Keep(words, paths, std::move(p), options_.max_paths, "graph.max_paths");
  }

  bool Edge(Words& words) {
    CallEdge e;
    return ReadNode(words, "from", e.from) && ReadNode(words, "to", e.to) && words.Read("calls", e.calls) &&
           words.Read("parents", e.parents) && words.Read("feedback", e.feedback) &&
           Once(words, {0, e.from, e.to, 0}) && Keep(words, out_.edges, e, options_.max_edges, "graph.max_edges");
  }

  bool Siblings(Words& words) {
    CallSiblings s;
    return ReadNode(words, "from", s.from) && ReadNode(words, "a", s.a) && ReadNode(words, "b", s.b) &&
           words.Read("parallel", s.parallel) && words.Read("sequential", s.sequential) &&
           words.Read("undecided", s.undecided) && (s.a <= s.b || words.Wrong("a is above b")) &&
           Once(words, {1, s.from, s.a, s.b}) && Keep(words, out_.siblings, s, options_.max_edges, "graph.max_edges");
  }

  bool Join(Words& words) {
    CallJoin j;
    std::int32_t varies = 0;
    bool fine = ReadNode(words, "from", j.from) && ReadNode(words, "to", j.to) &&
                words.Read("after_all", j.after_all) && words.Read("after_last", j.after_last) &&
                words.Read("before", j.before) && ReadNode(words, "upstream", j.upstream) &&
                words.Read("varies", varies, 1) && Once(words, {2, j.from, j.to, 0});
    j.varies = varies == 1;
    while (fine && !words.done()) {
      std::uint32_t member = 0;
      fine = ReadNode(words, "member", member);
      if (!j.members.empty() && member <= j.members.back()) return words.Wrong("members do not ascend");
      if (j.members.size() == CallGraph::kMaxMembers) return words.Wrong("there are too many members");
      j.members.push_back(member);
    }
    return fine && Keep(words, out_.joins, std::move(j), options_.max_edges, "graph.max_edges");
  }

  using What = std::array<std::uint32_t, 4>;
  bool Once(Words& words, const What& what) { return seen_.insert(what).second || words.Wrong("the line is repeated"); }

  const CallGraphOptions& options_;
  Learnt& out_;
  AgentLatency* latency_ = nullptr;
  bool next_is_remaining_ = false;
  bool named_ = false;  // no more names may follow
  std::set<std::uint64_t> seen_nodes_;
  std::set<What> seen_;  // edges, siblings and joins read so far
  std::int64_t line_ = 0;
  std::uint32_t farthest_ = 0;  // largest node in a path
  std::int64_t farthest_line_ = 0;
};

}  // namespace

std::string AgentLearner::Save(const AgentNames& names) const {
  std::string body;
  const auto out = std::back_inserter(body);
  for (std::uint64_t i = 1; i <= names.size(); ++i) {
    body += "name ";
    AppendHex(body, names.NameOf({i}));
    body += '\n';
  }
  const auto latency = [&](int all, const AgentLatency& a) {
    fmt::format_to(out, "agent {} {}\n", all, a.agent.value);
    Append(body, a.execution);
    Append(body, a.remaining);
  };
  latency(1, profile_.all());
  for (const AgentLatency& a : profile_.agents()) latency(0, a);
  for (const CallNode& n : graph_.nodes()) {
    fmt::format_to(out, "node {} {} {} {} {} {} {}\n", n.agent.value, n.calls, n.first, n.last, n.execution_s,
                   n.remaining_s, n.other_paths);
    for (const CallPath& p : n.paths) {
      fmt::format_to(out, "path {} {} {}", p.key, p.count, p.remaining_s);
      for (const std::uint32_t agent : p.agents) fmt::format_to(out, " {}", agent);
      body += '\n';
    }
  }
  for (const CallEdge& e : graph_.edges()) {
    fmt::format_to(out, "edge {} {} {} {} {}\n", e.from, e.to, e.calls, e.parents, e.feedback);
  }
  for (const CallSiblings& s : graph_.siblings()) {
    fmt::format_to(out, "siblings {} {} {} {} {} {}\n", s.from, s.a, s.b, s.parallel, s.sequential, s.undecided);
  }
  for (const CallJoin& j : graph_.joins()) {
    fmt::format_to(out, "join {} {} {} {} {} {} {}", j.from, j.to, j.after_all, j.after_last, j.before, j.upstream,
                   j.varies ? 1 : 0);
    for (const std::uint32_t member : j.members) fmt::format_to(out, " {}", member);
    body += '\n';
  }
  return fmt::format("{} {} {:016x}\n{}", kLearntMagic, kLearntVersion, ChecksumOf(body), body);
}

absl::Status AgentLearner::Load(std::string_view text, AgentNames& names) {
  const std::size_t end = text.find('\n');
  Words head(text.substr(0, end));
  if (end == std::string_view::npos || head.Word() != kLearntMagic) {
    return absl::InvalidArgumentError(fmt::format("learnt: the first line is not '{} VERSION CHECKSUM'", kLearntMagic));
  }
  std::uint64_t version = 0;
  if (!head.Read("version", version) || version != kLearntVersion) {
    return absl::InvalidArgumentError(fmt::format("learnt: the version is unsupported; expected {}", kLearntVersion));
  }
  std::string_view body = text.substr(end + 1);
  if (head.Word() != fmt::format("{:016x}", ChecksumOf(body)) || !head.done()) {
    return absl::InvalidArgumentError("learnt: the checksum is wrong, so the file is damaged or truncated");
  }
  Learnt learnt{names.Cleared(), LatencyProfile(options_.profile), {}, {}, {}, {}};
  Reader reader(graph_.options(), learnt);
  for (std::int64_t line = 2; !body.empty(); ++line) {
    const std::size_t stop = body.find('\n');
    if (stop == std::string_view::npos) return absl::InvalidArgumentError("learnt: the last line is cut off");
    if (const auto fault = reader.Line(line, body.substr(0, stop))) {
      return absl::InvalidArgumentError("learnt: " + *fault);
    }
    body.remove_prefix(stop + 1);
  }
  if (const auto fault = reader.End()) return absl::InvalidArgumentError("learnt: " + *fault);
  names = std::move(learnt.names);
  profile_ = std::move(learnt.profile);
  graph_.Restore(std::move(learnt.nodes), std::move(learnt.edges), std::move(learnt.siblings), std::move(learnt.joins));
  order_ = AgentOrder();
  seen_.clear();
  return absl::OkStatus();
}

}  // namespace takt
