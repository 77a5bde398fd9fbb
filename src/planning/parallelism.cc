#include "takt/planning/parallelism.h"

#include "takt/base/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "takt/base/exact_math.h"
#include "takt/base/random.h"
#include "takt/numeric/quantile.h"

namespace takt {
namespace {

constexpr double kEndless = std::numeric_limits<double>::infinity();

FastPathOptions EngineOf(const ServedModel& model, const Profile& profile) {
  return {.token_budget = model.token_budget,
          .max_seqs = model.max_seqs,
          .kv_tokens = profile.kv_capacity_tokens,
          .prefix_hit_rate = model.prefix_hit_rate};
}

PreparedCostModel Prepare(const ServedModel& model, const Profile& profile) {
  return PreparedCostModel(profile.cost, std::clamp(model.token_budget, 1, 1 << 16),
                           std::clamp(model.max_seqs, 1, 1 << 14));
}

// Arrivals at rate 1, and the lengths of each request, which all curves share.
struct Arrivals1 {
  std::vector<double> times;
  std::vector<std::uint32_t> picks;
};

Arrivals1 DrawArrivals(std::int64_t requests, std::size_t lengths, std::uint64_t seed) {
  Random gaps(seed), order(Mix64(seed) + 1);
  std::vector<std::uint32_t> deck(lengths);
  for (std::uint32_t i = 0; i < lengths; ++i) deck[i] = i;
  for (std::size_t i = lengths; i > 1; --i) std::swap(deck[i - 1], deck[order.Below(i)]);
  Arrivals1 arrivals;
  double now = 0;
  for (std::int64_t i = 0; i < requests; ++i) {
    arrivals.times.push_back(now);
    arrivals.picks.push_back(deck[static_cast<std::size_t>(i) % lengths]);
    now += gaps.Exponential();
  }
  return arrivals;
}

// Runs of one shape at any rate.
class ShapeRuns {
 public:
  ShapeRuns(const ServedModel& model, const Profile& profile, std::span<const RequestLengths> lengths,
            const Arrivals1& arrivals, const RateOptions& options)
      : cost_(Prepare(model, profile)),
        engine_(cost_, EngineOf(model, profile)),
        lengths_(lengths),
        arrivals_(arrivals),
        options_(options) {}

  RateCurve Measure() {
    points_ = {{0, Run(lengths_in_turn(), [](std::size_t i) { return static_cast<double>(i) * 1e6; }, 0)}};
    limit_ = options_.slowest * points_[0].p95;
    Add(Saturation());
    while (runs_ < options_.runs) {
      const std::size_t widest = Widest();
      if (widest == 0) break;
      Add((points_[widest - 1].rate + points_[widest].rate) / 2);
    }
    std::erase_if(points_, [this](const RateCurve::Point& p) { return p.p95 > limit_; });
    return RateCurve(std::move(points_));
  }

 private:
  std::size_t lengths_in_turn() const { return std::min(lengths_.size(), most()); }
  std::size_t most() const { return static_cast<std::size_t>(options_.most_requests); }

  // Returns the quantile of requests from `from` on. arrival(i) is the arrival of request i [s].
  template <class Arrival>
  double Run(std::size_t requests, Arrival arrival, std::size_t from) {
    requests_.resize(requests);
    records_.resize(requests);
    for (std::size_t i = 0; i < requests; ++i) {
      const RequestLengths& l = lengths_[arrivals_.picks[i % arrivals_.picks.size()]];
      requests_[i] = {arrival(i), l.prompt, l.output};
    }
    engine_.Run(requests_, records_);
    latencies_.clear();
    for (std::size_t i = from; i < requests; ++i) latencies_.push_back(records_[i].end - requests_[i].arrival);
    return Quantile(latencies_, options_.quantile);
  }

  // Returns the saturation rate, in requests per second. All requests wait from the start, and the first and last
  // quarter of the ends do not count.
  double Saturation() {
    Run(most(), [](std::size_t) { return 0.0; }, 0);
    const auto at = [this](std::size_t place) {
      const auto it = latencies_.begin() + static_cast<std::ptrdiff_t>(place);
      std::nth_element(latencies_.begin(), it, latencies_.end());
      return *it;
    };
    const std::size_t first = most() / 4, last = most() - most() / 4;
    const double begin = at(first), end = at(last);
    return end > begin ? static_cast<double>(last - first) / (end - begin) : static_cast<double>(most()) / end;
  }

  // Adds a point to the curve, sorted by rate.
  void Add(double rate) {
    // The counted requests have each of the lengths equally often.
    const std::size_t turn = lengths_in_turn();
    const double wish =
        std::max(rate * options_.horizon * points_[0].p95, static_cast<double>(options_.least_requests));
    const std::size_t turns = static_cast<std::size_t>(std::min(wish, static_cast<double>(most()))) / turn;
    const std::size_t counted = std::max<std::size_t>(turns, 1) * turn;
    const std::size_t before = counted / 4;
    ++runs_;
    const RateCurve::Point point{
        rate, Run(counted + before, [&](std::size_t i) { return arrivals_.times[i] / rate; }, before)};
    points_.insert(std::upper_bound(points_.begin(), points_.end(), point,
                                    [](const auto& a, const auto& b) { return a.rate < b.rate; }),
                   point);
  }

  // Returns the point with the largest uncertainty to its predecessor; 0 if the curve is accurate enough.
  std::size_t Widest() const {
    std::size_t widest = 0;
    double most = 0;
    for (std::size_t i = 1; i < points_.size(); ++i) {
      const RateCurve::Point &a = points_[i - 1], &b = points_[i];
      if (a.p95 > limit_) break;
      const double top = std::min(b.p95, 2 * limit_);
      if (top <= a.p95 * (1 + options_.resolution) || b.rate <= a.rate * (1 + options_.resolution)) continue;
      const double open = exact::Log(top / a.p95) * (b.rate - a.rate);
      if (open > most) most = open, widest = i;
    }
    return widest;
  }

  PreparedCostModel cost_;
  FastPath engine_;
  std::span<const RequestLengths> lengths_;
  const Arrivals1& arrivals_;
  const RateOptions& options_;
  double limit_ = 0;
  int runs_ = 0;
  std::vector<RateCurve::Point> points_;
  std::vector<FastRequest> requests_;
  std::vector<FastRecord> records_;
  std::vector<double> latencies_;
};

// Returns why the profile cannot serve a request of this length; empty if it can.
std::string WhyNot(const Profile& p, std::int64_t longest) {
  if (p.kv_capacity_tokens >= longest) return "";
  constexpr double kGib = 1024.0 * 1024 * 1024;
  const double gpus = p.cost.gpus();
  const bool copies = p.kv_heads > 0 && p.cost.tp > p.kv_heads;
  const double kv = static_cast<double>(longest) * static_cast<double>(p.kv_bytes_per_token) *
                    (copies ? static_cast<double>(p.cost.tp) / p.kv_heads : 1);
  const double need = (static_cast<double>(p.weight_bytes) + kv) / kGib;
  const double have = gpus * (0.9 * p.gpu_memory_gib - 3);
  return fmt::format("{0} has {1:.1f} GiB, but weights and the KV of {3} tokens need {2:.1f} GiB, {4:.1f} GiB more",
                     p.id, std::max(have, 0.0), need, longest, need - std::max(have, 0.0));
}

// K(T, .) for one latency.
void Knapsack(std::span<const ShapeRates> shapes, std::span<const double> rates, std::span<double> best) {
  best[0] = 0;
  for (std::size_t f = 1; f < best.size(); ++f) {
    double most = best[f - 1];
    for (std::size_t s = 0; s < shapes.size(); ++s) {
      const auto g = static_cast<std::size_t>(shapes[s].gpus);
      if (g <= f) most = std::max(most, best[f - g] + rates[s]);
    }
    best[f] = most;
  }
}

}  // namespace

absl::StatusOr<std::vector<Profile>> FindShapes(std::string_view id, std::span<const std::int32_t> tp,
                                                std::span<const std::int32_t> pp, std::span<const Profile> more) {
  std::vector<Profile> shapes;
  absl::Status missing;
  for (const std::int32_t t : tp) {
    const absl::StatusOr<Profile> one = FindProfile(fmt::format("{}/tp{}", id, t), more);
    if (!one.ok()) {
      if (missing.ok()) missing = one.status();
      continue;
    }
    for (const std::int32_t p : pp) {
      absl::StatusOr<Profile> shape = WithPipeline(*one, p);
      if (shape.ok()) shapes.push_back(*std::move(shape));
    }
  }
  if (!shapes.empty()) return shapes;
  return missing.ok() ? absl::NotFoundError(fmt::format("\"{}\" has no shape", id)) : missing;
}

RateCurve::RateCurve(std::vector<Point> points) : points_(std::move(points)) {
  std::stable_sort(points_.begin(), points_.end(), [](const Point& a, const Point& b) { return a.rate < b.rate; });
  for (std::size_t i = 1; i < points_.size(); ++i) points_[i].p95 = std::max(points_[i].p95, points_[i - 1].p95);
}

double RateCurve::LargestRate(double latency) const {
  const auto after =
      std::upper_bound(points_.begin(), points_.end(), latency, [](double l, const Point& p) { return l < p.p95; });
  if (after == points_.begin()) return 0;
  const Point& a = *(after - 1);
  if (after == points_.end()) return a.rate;
  return a.rate + (after->rate - a.rate) * (latency - a.p95) / (after->p95 - a.p95);
}

double RateCurve::Latency(double rate) const {
  const auto at =
      std::lower_bound(points_.begin(), points_.end(), rate, [](const Point& p, double r) { return p.rate < r; });
  if (at == points_.end()) return kEndless;
  if (at == points_.begin() || at->rate <= rate) return at->p95;
  const Point& a = *(at - 1);
  return a.p95 + (at->p95 - a.p95) * (rate - a.rate) / (at->rate - a.rate);
}

absl::Status RateOptions::Validate() const {
  Faults faults;
  faults.Expect(quantile > 0 && quantile < 1, "quantile", quantile, "must be between 0 and 1");
  faults.Expect(slowest > 1 && slowest <= 1e6, "slowest", slowest, "must be above 1, up to 1e6");
  faults.Expect(resolution > 0 && resolution <= 1, "resolution", resolution, "must be above 0, up to 1");
  faults.Expect(runs >= 4 && runs <= 10'000, "runs", runs, "must be 4 to 10,000");
  faults.Expect(horizon > 0 && horizon <= 1e6, "horizon", horizon, "must be positive, up to 1e6");
  faults.Expect(least_requests >= 20, "least_requests", least_requests, "must be at least 20");
  faults.Expect(most_requests >= least_requests && most_requests <= 10'000'000, "most_requests", most_requests,
                "must be at least least_requests, up to 10 million");
  return faults.ToStatus();
}

absl::StatusOr<std::vector<ModelRates>> MeasureRates(std::span<const ServedModel> models,
                                                     std::span<const std::vector<RequestLengths>> lengths,
                                                     const RateOptions& options, const ParallelFor& parallel,
                                                     const Progress& progress) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  if (models.size() != lengths.size()) {
    return absl::InvalidArgumentError(
        fmt::format("lengths: {1} entries; expected {0}, one per model", models.size(), lengths.size()));
  }
  struct Item {
    std::size_t model, place;
  };
  std::vector<Item> work;
  std::vector<ModelRates> rates(models.size());
  std::vector<Arrivals1> arrivals;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const ServedModel& model = models[i];
    if (lengths[i].empty())
      return absl::InvalidArgumentError(model.name + ": lengths are empty; expected at least one");
    if (model.shapes.empty())
      return absl::InvalidArgumentError(model.name + ": shapes are empty; expected at least one");
    std::int64_t longest = 0;
    for (const RequestLengths& l : lengths[i]) {
      if (l.prompt < 1 || l.output < 1 || std::int64_t{l.prompt} + l.output > 1'000'000'000) {
        return absl::InvalidArgumentError(
            fmt::format("{}: a request has {} prompt and {} output tokens; both must be "
                        "at least 1, together at most 1e9",
                        model.name, l.prompt, l.output));
      }
      longest = std::max(longest, std::int64_t{l.prompt} + l.output);
    }
    std::string why;
    for (std::size_t s = 0; s < model.shapes.size(); ++s) {
      const Profile& shape = model.shapes[s];
      if (const std::string faults = shape.cost.Faults(); !faults.empty()) {
        return absl::InvalidArgumentError(fmt::format("{}: {}: {}", model.name, shape.id, faults));
      }
      // Rounds up to whole blocks.
      if (const std::string reason = WhyNot(shape, longest + 16); !reason.empty()) {
        why += "\n  " + reason;
        continue;
      }
      work.push_back({i, rates[i].shapes.size()});
      rates[i].shapes.push_back({s, shape.cost.gpus(), {}});
    }
    if (rates[i].shapes.empty()) {
      return absl::FailedPreconditionError(fmt::format(
          "{}: no shape of a replica has room for the longest request, of {} tokens:{}", model.name, longest, why));
    }
    arrivals.push_back(
        DrawArrivals(options.most_requests + options.most_requests / 4, lengths[i].size(), options.seed));
  }
  // The caller gets the progress between batches.
  constexpr std::size_t kBatch = 8;
  for (std::size_t begin = 0; begin < work.size(); begin += kBatch) {
    if (progress && !progress(static_cast<double>(begin) / static_cast<double>(work.size()))) {
      return absl::CancelledError("measuring replicas was stopped");
    }
    parallel(std::min(kBatch, work.size() - begin), [&](std::size_t k) {
      const auto [model, place] = work[begin + k];
      ShapeRates& shape = rates[model].shapes[place];
      shape.curve =
          ShapeRuns(models[model], models[model].shapes[shape.shape], lengths[model], arrivals[model], options)
              .Measure();
    });
  }
  if (progress && !progress(1)) return absl::CancelledError("measuring replicas was stopped");
  return rates;
}

MixTable::MixTable(std::span<const ModelRates> models, std::int32_t gpus, double step)
    : models_(models.begin(), models.end()), row_(static_cast<std::size_t>(std::max(gpus, 0)) + 1) {
  double least = kEndless, most = 0;
  for (const ModelRates& m : models_) {
    for (const ShapeRates& s : m.shapes) {
      if (s.curve.points().empty()) continue;
      least = std::min(least, s.curve.alone());
      most = std::max(most, s.curve.points().back().p95);
    }
  }
  const double ratio = 1 + std::max(step, 1e-6);
  for (double t = least; least < kEndless; t *= ratio) {
    latencies_.push_back(t);
    if (t >= most) break;
  }
  rates_.resize(models_.size() * latencies_.size() * row_);
  std::vector<double> largest;
  for (std::size_t m = 0; m < models_.size(); ++m) {
    for (std::size_t level = 0; level < latencies_.size(); ++level) {
      largest.clear();
      for (const ShapeRates& s : models_[m].shapes) largest.push_back(s.curve.LargestRate(latencies_[level]));
      Knapsack(models_[m].shapes, largest, std::span(rates_).subspan((m * latencies_.size() + level) * row_, row_));
    }
  }
}

std::int32_t MixTable::LeastGpus(std::size_t model, std::size_t level, double rate) const {
  if (!(rate > 0)) return 0;
  const double* const row = &rates_[(model * latencies_.size() + level) * row_];
  return static_cast<std::int32_t>(std::lower_bound(row, row + row_, rate) - row);
}

std::size_t MixTable::LeastLevel(std::size_t model, std::int32_t f, double rate) const {
  std::size_t low = 0, high = latencies_.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (Rate(model, middle, f) >= rate) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

double MixTable::Latency(std::size_t model, std::int32_t f, double rate) const {
  if (!(rate > 0)) return 0;
  const std::size_t level = LeastLevel(model, f, rate);
  return level < latencies_.size() ? latencies_[level] : kEndless;
}

LatencyTable MixTable::Latencies(std::span<const double> rates) const {
  LatencyTable table(models(), gpus());
  for (std::size_t m = 0; m < models(); ++m) {
    for (std::int32_t f = 0; f <= gpus(); ++f) table.Set(m, f, Latency(m, f, rates[m]));
  }
  return table;
}

std::vector<ReplicaCount> MixTable::Mix(std::size_t model, std::size_t level, std::int32_t f) const {
  const std::span<const ShapeRates> shapes = models_[model].shapes;
  std::vector<ReplicaCount> mix;
  for (const ShapeRates& s : shapes) mix.push_back({s.shape, 0, s.curve.LargestRate(latencies_[level])});
  const double* const best = &rates_[(model * latencies_.size() + level) * row_];
  for (auto left = static_cast<std::size_t>(f); left > 0;) {
    if (best[left] == best[left - 1]) {
      --left;
      continue;
    }
    std::size_t s = 0;
    const auto fits = [&] {
      const auto g = static_cast<std::size_t>(shapes[s].gpus);
      return g <= left && best[left] == best[left - g] + mix[s].rate;
    };
    while (!fits()) ++s;
    ++mix[s].count;
    left -= static_cast<std::size_t>(shapes[s].gpus);
  }
  std::erase_if(mix, [](const ReplicaCount& r) { return r.count == 0; });
  return mix;
}

double MixTable::MixLatency(std::size_t model, std::span<const ReplicaCount> mix, double rate) const {
  if (!(rate > 0)) return 0;
  const auto serves = [&](double latency) {
    double sum = 0;
    for (const ReplicaCount& r : mix) {
      for (const ShapeRates& s : models_[model].shapes) {
        if (s.shape == r.shape) sum += r.count * s.curve.LargestRate(latency);
      }
    }
    return sum >= rate;
  };
  const auto at = std::partition_point(latencies_.begin(), latencies_.end(), [&](double t) { return !serves(t); });
  return at == latencies_.end() ? kEndless : *at;
}

MixRun SimulateMix(const ServedModel& model, std::span<const ReplicaCount> mix, std::span<const FastRequest> requests,
                   std::span<double> ends, double quantile) {
  struct Replica {
    std::size_t shape = 0;
    double share = 0, credit = 0;
    std::vector<FastRequest> requests;
    std::vector<std::size_t> places;
  };
  std::vector<Replica> replicas;
  double sum = 0;
  for (const ReplicaCount& r : mix) {
    for (std::int32_t i = 0; i < r.count; ++i) replicas.push_back({r.shape, r.rate, 0, {}, {}}), sum += r.rate;
  }
  MixRun run;
  if (requests.empty()) return run;
  if (replicas.empty()) {
    std::fill(ends.begin(), ends.end(), kEndless);
    run.p95 = run.mean = kEndless;
    return run;
  }
  for (Replica& r : replicas) r.share = sum > 0 ? r.share / sum : 1.0 / static_cast<double>(replicas.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    std::size_t next = 0;
    for (std::size_t k = 0; k < replicas.size(); ++k) {
      replicas[k].credit += replicas[k].share;
      if (replicas[k].credit > replicas[next].credit) next = k;
    }
    replicas[next].credit -= 1;
    replicas[next].requests.push_back(requests[i]);
    replicas[next].places.push_back(i);
  }
  std::vector<FastRecord> records;
  double last = 0;
  for (const Replica& r : replicas) {
    const Profile& profile = model.shapes[r.shape];
    const PreparedCostModel cost = Prepare(model, profile);
    records.resize(r.requests.size());
    const FastRun own = FastPath(cost, EngineOf(model, profile)).Run(r.requests, records);
    for (std::size_t i = 0; i < records.size(); ++i) ends[r.places[i]] = records[i].end;
    run.utilisation += own.busy / static_cast<double>(replicas.size());
    last = std::max(last, own.end);
  }
  if (const double span = last - requests.front().arrival; span > 0) run.utilisation /= span;
  std::vector<double> latencies;
  for (std::size_t i = requests.size() / 4; i < requests.size(); ++i)
    latencies.push_back(ends[i] - requests[i].arrival);
  for (const double l : latencies) run.mean += l / static_cast<double>(latencies.size());
  run.p95 = Quantile(latencies, quantile);
  return run;
}

}  // namespace takt
