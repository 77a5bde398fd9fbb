#include "takt/learning/agent_learner.h"

#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>

#include "fmt/format.h"

namespace takt {
namespace {

// A line of the file is a word and numbers; the first line is "takt_learnt VERSION CHECKSUM" of all that follows.
constexpr std::string_view kMagic = "takt_learnt";
constexpr std::uint64_t kVersion = 1;

// FNV-1a.
std::uint64_t ChecksumOf(std::string_view text) {
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return sum;
}

void AppendHex(std::string& out, std::string_view bytes) {
  out += 'x';  // so that the empty name is a word, too
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

// Words of a line.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  bool done() const { return rest_.empty(); }
  std::string_view Word() {
    const std::size_t space = rest_.find(' ');
    const std::string_view word = rest_.substr(0, space);
    rest_ = space == std::string_view::npos ? std::string_view() : rest_.substr(space + 1);
    return word;
  }
  // False where there is no such number, or it lies outside [0, most].
  template <class Number>
  bool Read(Number& number, double most = 9e18) {
    const std::string_view word = Word();
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size() || word.empty()) return false;
    return static_cast<double>(number) >= 0 && static_cast<double>(number) <= most;
  }
  template <class... Numbers>
  bool ReadAll(Numbers&... numbers) {
    return (Read(numbers) && ...);
  }

 private:
  std::string_view rest_;
};

struct Learnt {
  AgentNames names;
  LatencyProfile profile;
  std::vector<CallNode> nodes;
  std::vector<CallEdge> edges;
  std::vector<CallSiblings> siblings;
  std::vector<CallJoin> joins;
};

// Reads lines after the first. Each returns what is wrong, if anything.
class Reader {
 public:
  Reader(const AgentLearnerOptions& options, Learnt& out) : options_(options), out_(out) {}

  std::optional<std::string> Line(std::string_view line) {
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
    else return fmt::format("'{}' is no kind of line", what.substr(0, 32));
    if (fine && words.done()) return std::nullopt;
    return fmt::format("{}: a number is missing, out of bounds or too many", what);
  }

 private:
  bool IsNode(std::uint32_t node) const { return node < out_.nodes.size(); }

  bool Name(Words& words) {
    std::string_view hex = words.Word();
    if (hex.size() % 2 != 1 || hex[0] != 'x') return false;
    std::string name;
    for (hex.remove_prefix(1); !hex.empty(); hex.remove_prefix(2)) {
      unsigned byte = 0;
      const auto [end, error] = std::from_chars(hex.data(), hex.data() + 2, byte, 16);
      if (error != std::errc() || end != hex.data() + 2) return false;
      name += static_cast<char>(byte);
    }
    const std::size_t before = out_.names.size();
    return out_.names.Intern(name).value == before + 1;
  }

  bool Agent(Words& words) {
    std::uint64_t agent = 0;
    std::int32_t all = 0;
    if (!words.Read(all, 1) || !words.Read(agent, std::numeric_limits<double>::infinity())) return false;
    if (all == 0 && out_.profile.Find({agent}) != nullptr) return false;
    latency_ = all == 1 ? &out_.profile.RestoreAll() : out_.profile.Restore({agent});
    next_is_remaining_ = false;
    return latency_ != nullptr;
  }

  bool Latency(Words& words) {
    if (latency_ == nullptr) return false;
    std::int64_t observed = 0, drifts = 0, count = 0;
    std::int32_t converged = 0;
    double mean = 0, deviation = 0, least = 0, most = 0;
    if (!words.ReadAll(observed, drifts) || !words.Read(converged, 1)) return false;
    if (!words.Read(count, 1e12) || !words.ReadAll(mean, deviation, least, most)) return false;
    QuantileSketch<LogHistogram> sketch(LatencyDistribution::Bins());
    std::int64_t units = 0;
    while (!words.done()) {
      std::size_t bin = 0;
      std::int64_t in_bin = 0;
      if (!words.Read(bin, static_cast<double>(sketch.histogram().counts().size() - 1))) return false;
      if (!words.Read(in_bin, 1e15)) return false;
      sketch.RestoreBin(bin, in_bin);
      units += in_bin;
    }
    if ((count == 0) != (units == 0) || least > most) return false;
    if (count > 0) sketch.Restore(Moments::From(count, mean, deviation), least, most);
    LatencyDistribution& d = next_is_remaining_ ? latency_->remaining : latency_->execution;
    d.Restore(sketch, observed, drifts, converged == 1);
    if (next_is_remaining_) latency_ = nullptr;
    next_is_remaining_ = true;
    return true;
  }

  bool Node(Words& words) {
    if (out_.nodes.size() >= options_.graph.max_agents) return false;
    CallNode n;
    if (!words.Read(n.agent.value, std::numeric_limits<double>::infinity())) return false;
    for (const CallNode& other : out_.nodes) {
      if (other.agent == n.agent) return false;
    }
    out_.nodes.push_back(n);
    CallNode& kept = out_.nodes.back();
    return words.ReadAll(kept.calls, kept.first, kept.last, kept.execution_s, kept.remaining_s, kept.other_paths);
  }

  bool Path(Words& words) {
    if (out_.nodes.empty()) return false;
    CallPath p;
    if (!words.Read(p.key, std::numeric_limits<double>::infinity()) || !words.ReadAll(p.count, p.remaining_s))
      return false;
    while (!words.done()) {
      std::uint32_t agent = 0;
      if (!words.Read(agent)) return false;
      if (agent != CallGraph::kThen && agent >= options_.graph.max_agents) return false;
      p.agents.push_back(agent);
    }
    out_.nodes.back().paths.push_back(std::move(p));
    return true;
  }

  bool Edge(Words& words) {
    CallEdge e;
    const bool fine = words.ReadAll(e.from, e.to, e.calls, e.parents, e.feedback) && IsNode(e.from) && IsNode(e.to);
    out_.edges.push_back(e);
    return fine && out_.edges.size() <= options_.graph.max_edges;
  }

  bool Siblings(Words& words) {
    CallSiblings s;
    const bool fine = words.ReadAll(s.from, s.a, s.b, s.parallel, s.sequential, s.undecided) && IsNode(s.from) &&
                      IsNode(s.b) && s.a <= s.b;
    out_.siblings.push_back(s);
    return fine && out_.siblings.size() <= options_.graph.max_edges;
  }

  bool Join(Words& words) {
    CallJoin j;
    std::int32_t varies = 0;
    bool fine = words.ReadAll(j.from, j.to, j.after_all, j.after_last, j.before, j.upstream) && words.Read(varies, 1);
    fine = fine && IsNode(j.from) && IsNode(j.to) && IsNode(j.upstream);
    j.varies = varies == 1;
    while (fine && !words.done()) {
      std::uint32_t member = 0;
      fine = words.Read(member) && IsNode(member) && (j.members.empty() || j.members.back() < member);
      j.members.push_back(member);
    }
    out_.joins.push_back(std::move(j));
    return fine && out_.joins.size() <= options_.graph.max_edges;
  }

  const AgentLearnerOptions& options_;
  Learnt& out_;
  AgentLatency* latency_ = nullptr;
  bool next_is_remaining_ = false;
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
  return fmt::format("{} {} {:016x}\n{}", kMagic, kVersion, ChecksumOf(body), body);
}

absl::Status AgentLearner::Load(std::string_view text, AgentNames& names) {
  const std::size_t end = text.find('\n');
  Words head(text.substr(0, end));
  if (end == std::string_view::npos || head.Word() != kMagic) {
    return absl::InvalidArgumentError(fmt::format("learnt: the first line is not '{} VERSION CHECKSUM'", kMagic));
  }
  std::uint64_t version = 0;
  if (!head.Read(version) || version != kVersion) {
    return absl::InvalidArgumentError(fmt::format("learnt: its version is not {}, which is read here", kVersion));
  }
  std::string_view body = text.substr(end + 1);
  if (head.Word() != fmt::format("{:016x}", ChecksumOf(body)) || !head.done()) {
    return absl::InvalidArgumentError("learnt: the checksum does not fit the rest: damaged or cut off");
  }
  Learnt learnt{
      AgentNames(std::numeric_limits<std::uint32_t>::max()), LatencyProfile(options_.profile), {}, {}, {}, {}};
  Reader reader(options_, learnt);
  for (std::int64_t line = 2; !body.empty(); ++line) {
    const std::size_t stop = body.find('\n');
    if (stop == std::string_view::npos) return absl::InvalidArgumentError("learnt: the last line does not end");
    if (const auto fault = reader.Line(body.substr(0, stop))) {
      return absl::InvalidArgumentError(fmt::format("learnt: line {}: {}", line, *fault));
    }
    body.remove_prefix(stop + 1);
  }
  names = std::move(learnt.names);
  profile_ = std::move(learnt.profile);
  graph_.Restore(std::move(learnt.nodes), std::move(learnt.edges), std::move(learnt.siblings), std::move(learnt.joins));
  order_ = AgentOrder();
  seen_.clear();
  return absl::OkStatus();
}

}  // namespace takt
