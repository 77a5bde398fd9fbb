#include "lab/strangers/inputs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "lab/scenario.h"
#include "workload/lines.h"
#include "fmt/format.h"
#include "takt/base/random.h"
#include "takt/base/time.h"
#include "takt/workload/generate.h"
#include "takt/workload/read.h"
#include "takt/workload/transform.h"

namespace takt::tool {
namespace {

constexpr double kMedianPrompt = 1500, kMeanOutput = 300;  // chosen, of the generators
constexpr double kMedianDocument = 8000, kDocumentSigma = 0.7, kMeanSummary = 200;  // chosen, of long summaries
constexpr std::int32_t kMostPrompt = 60'000;
constexpr double kClientSigma = 1;  // chosen: sigma of a client's lengths, whose means are in the trace
constexpr std::int64_t kUnpackedBytes = 1 << 28;

// This many workflows in a row, at most 0.8 of all, from a random start, with their times.
Workload WindowOf(const Workload& from, std::size_t workflows, std::uint64_t seed) {
  Random random(seed);
  const std::size_t n = std::min(workflows, from.workflows.size() * 8 / 10);
  const std::size_t first = random.Below(from.workflows.size() - n + 1);
  Workload window = from;
  window.workflows.assign(from.workflows.begin() + static_cast<std::ptrdiff_t>(first),
                          from.workflows.begin() + static_cast<std::ptrdiff_t>(first + n));
  const Duration start = window.workflows.front().arrival.time_since_epoch();
  for (WorkloadWorkflow& w : window.workflows) w.arrival -= start;
  return Tidied(window);
}

// Poisson arrivals that alternate between lulls and bursts of `high` times their rate. Each phase lasts about `phase`
// arrivals of the faster rate.
absl::Status LetBurst(Workload& workload, double high, double phase, std::uint64_t seed) {
  Random random(seed ^ 0x627572737473u);
  std::vector<TimePoint> times;
  double now = 0, left = phase;
  bool burst = true;
  for (std::size_t i = 0; i < workload.workflows.size(); ++i) {
    times.push_back(TimePoint(FromSeconds(now)));
    now += random.Exponential() / (burst ? high : 1);
    left -= burst ? 1 : high;
    if (left <= 0) burst = !burst, left = phase * (0.5 + random.Uniform());
  }
  return SetArrivals(workload, times);
}

// Single calls whose lengths `lengths(random)` draws: prompt and output.
template <class Lengths>
absl::StatusOr<Workload> SingleCalls(std::size_t calls, std::uint64_t seed, Lengths lengths) {
  absl::StatusOr<Workload> made = GenerateWorkload(fmt::format("gen:poisson,rate=1,requests={},seed={}", calls, seed));
  if (!made.ok()) return made;
  Random random(seed ^ 0x6c656e67746873u);
  for (WorkloadCall& c : made->calls) {
    const auto [prompt, output] = lengths(random);
    c.prompt_tokens = static_cast<std::int32_t>(std::clamp(prompt, 1.0, static_cast<double>(kMostPrompt)));
    c.output_tokens = static_cast<std::int32_t>(std::clamp(output, 1.0, 20'000.0));
  }
  return made;
}

std::vector<std::string_view> StrangerFields(std::string_view line) {
  std::vector<std::string_view> fields;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t comma = std::min(line.find(',', begin), line.size());
    fields.push_back(line.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return fields;
}

double StrangerNumberOf(std::string_view text) {
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Calls line(fields) for each line except the heading.
template <class Line>
absl::Status ForLines(const std::string& path, Line line) {
  absl::StatusOr<std::unique_ptr<ByteSource>> file = OpenFile(path);
  if (!file.ok()) return file.status();
  LineReader reader(Unpacked(*std::move(file), kUnpackedBytes));
  for (;;) {
    const absl::StatusOr<bool> more = reader.Next();
    if (!more.ok()) return more.status();
    if (!*more) return absl::OkStatus();
    if (reader.number() > 1) line(StrangerFields(reader.line()));
  }
}

}  // namespace

bool StrangerInputs::Has(const Stranger& stranger) {
  if (stranger.data.empty() || files_.contains(stranger.data)) return true;
  if (stranger.name == "many clients") return !windows_.empty() || (ReadClients().ok() && !windows_.empty());
  const std::size_t slash = stranger.data.find('/');
  const absl::StatusOr<std::string> path =
      FindData(data_, std::string(stranger.data.substr(0, slash)), std::string(stranger.data.substr(slash + 1)));
  absl::StatusOr<Workload> read = path.ok() ? ReadWorkload(*path) : path.status();
  if (!read.ok()) return false;
  files_.emplace(stranger.data, *std::move(read));
  return true;
}

// ServeGen's windows of ten minutes: rate and burstiness of each client, and the average lengths of its calls.
absl::Status StrangerInputs::ReadClients() {
  std::map<std::uint32_t, Client> clients;
  const absl::StatusOr<std::string> means = FindData(data_, "traces", "servegen_clients.csv.gz");
  const absl::StatusOr<std::string> path = FindData(data_, "traces", "servegen_deepseek-r1_windows.csv.gz");
  if (!means.ok()) return means.status();
  if (!path.ok()) return path.status();
  absl::Status read = ForLines(*means, [&](const std::vector<std::string_view>& f) {
    if (f.size() < 8 || f[0] != "deepseek-r1" || f[6].empty() || f[7].empty()) return;
    clients[static_cast<std::uint32_t>(StrangerNumberOf(f[1]))] = {.prompt = StrangerNumberOf(f[6]),
                                                                   .output = StrangerNumberOf(f[7])};
  });
  if (!read.ok()) return read;
  return ForLines(*path, [&](const std::vector<std::string_view>& f) {
    if (f.size() < 4) return;
    const auto client = clients.find(static_cast<std::uint32_t>(StrangerNumberOf(f[0])));
    if (client == clients.end() || !(StrangerNumberOf(f[2]) > 0)) return;
    Client now = client->second;
    now.rate = StrangerNumberOf(f[2]), now.cv = std::clamp(StrangerNumberOf(f[3]), 0.5, 8.0);
    windows_[static_cast<std::int64_t>(StrangerNumberOf(f[1]))].emplace_back(client->first + 1, now);
  });
}

// Draws from a random window on until there are enough calls; a client's arrivals are a gamma process.
absl::StatusOr<Workload> StrangerInputs::Clients(std::size_t calls, std::uint64_t seed) const {
  struct Call {
    double at;
    std::uint32_t client;
    double prompt, output;
  };
  constexpr double kWindow = 600;  // s
  Random random(seed ^ 0x636c69656e7473u);
  std::vector<Call> all;
  auto window = std::next(windows_.begin(), static_cast<std::ptrdiff_t>(random.Below(windows_.size())));
  for (double start = 0; all.size() < calls; start += kWindow) {
    for (const auto& [client, now] : window->second) {
      const double shape = 1 / (now.cv * now.cv);
      for (double at = random.Uniform() / now.rate; at < kWindow; at += random.Gamma(shape) / shape / now.rate) {
        const double spread = kClientSigma * kClientSigma / 2;
        all.push_back({start + at, client, random.LogNormal(std::log(std::max(now.prompt, 1.0)) - spread, kClientSigma),
                       random.LogNormal(std::log(std::max(now.output, 1.0)) - spread, kClientSigma)});
        if (all.size() > 4 * calls) break;
      }
    }
    if (++window == windows_.end()) window = windows_.begin();
  }
  std::ranges::sort(all, {}, &Call::at);
  all.resize(calls);
  std::size_t i = 0;
  absl::StatusOr<Workload> made = SingleCalls(calls, seed, [&](Random&) {
    const Call& c = all[i++];
    return std::pair{c.prompt, c.output};
  });
  if (!made.ok()) return made;
  std::vector<TimePoint> times;
  for (std::size_t k = 0; k < calls; ++k) {
    times.push_back(TimePoint(FromSeconds(all[k].at - all.front().at)));
    made->workflows[k].tenant = all[k].client;
  }
  if (absl::Status s = SetArrivals(*made, times); !s.ok()) return s;
  return made;
}

absl::StatusOr<Workload> StrangerInputs::Make(const Stranger& stranger, double share, std::uint64_t seed) const {
  const auto calls = static_cast<std::size_t>(std::max(64.0, std::round(share * stranger.calls)));
  if (stranger.name == "many clients") return Clients(calls, seed);
  if (stranger.name == "agents") {
    return GenerateWorkload(fmt::format("gen:kairos,app=mix,rate=1,workflows={},seed={}", calls / 4, seed));
  }
  if (stranger.name.starts_with("prompts")) {
    const double sigma = StrangerNumberOf(stranger.name.substr(stranger.name.rfind(' ') + 1));
    return SingleCalls(calls, seed, [sigma](Random& random) {
      const double prompt = random.LogNormal(std::log(kMedianPrompt), sigma);
      return std::pair{prompt, 1 + kMeanOutput * random.Exponential()};
    });
  }
  if (stranger.name == "long summaries") {
    return SingleCalls(calls, seed, [](Random& random) {
      const double prompt = random.LogNormal(std::log(kMedianDocument), kDocumentSigma);
      return std::pair{prompt, 1 + kMeanSummary * random.Exponential()};
    });
  }
  const Workload& file = files_.at(stranger.data);
  const std::size_t each =
      std::max<std::size_t>(1, file.calls.size() / std::max<std::size_t>(1, file.workflows.size()));
  if (stranger.name.starts_with("bursts")) {
    // Calls that share prefixes stay in their order.
    absl::StatusOr<Workload> drawn = stranger.prefix_cache
                                         ? WindowOf(file, calls, seed)
                                         : Draw(file, static_cast<std::int64_t>(calls), Arrivals{}, seed);
    if (!drawn.ok()) return drawn;
    const bool chats = stranger.name.ends_with("conversations");
    if (absl::Status s = LetBurst(*drawn, chats ? 6 : 4, static_cast<double>(calls) / 10, seed); !s.ok()) return s;
    return drawn;
  }
  const bool timed = stranger.data.starts_with("traces/") && !stranger.data.ends_with("lengths.csv.gz");
  if (timed) return WindowOf(file, calls, seed);
  return Draw(file, static_cast<std::int64_t>(calls / each), Arrivals{}, seed);
}

absl::StatusOr<Workload> StrangerInputs::MakeLie(Lie lie, double share, std::uint64_t seed) const {
  const auto calls = static_cast<std::int64_t>(std::max(64.0, std::round(share * 3000)));
  absl::StatusOr<Workload> made = Draw(files_.at(kStrangers[0].data), calls, Arrivals{}, seed);
  if (!made.ok()) return made;
  Workload& w = *made;
  for (std::size_t i = 0; i < w.workflows.size(); ++i) {
    w.workflows[i].tenant = kLiar + static_cast<std::uint32_t>(Mix64(seed ^ (i << 8)) % kTenants);
  }
  if (lie == Lie::kPad) {
    for (const WorkloadWorkflow& f : w.workflows) {
      if (f.tenant == kLiar) w.calls[f.first_call].prompt_tokens += w.calls[f.first_call].prompt_tokens / 2;
    }
  }
  if (lie == Lie::kSplit) {
    // Four workflows at once, each with the prompt and a quarter of the output.
    std::vector<WorkloadWorkflow> all;
    for (const WorkloadWorkflow& f : w.workflows) {
      const WorkloadCall call = w.calls[f.first_call];
      if (f.tenant != kLiar || call.output_tokens < 4) {
        all.push_back(f);
        continue;
      }
      w.calls[f.first_call].output_tokens = call.output_tokens / 4;
      all.push_back(f);
      for (int piece = 1; piece < 4; ++piece) {
        WorkloadWorkflow more = f;
        more.first_call = static_cast<std::uint32_t>(w.calls.size());
        w.calls.push_back(w.calls[f.first_call]);
        all.push_back(more);
      }
    }
    w.workflows = std::move(all);
    return Tidied(w);
  }
  return made;
}

}  // namespace takt::tool
