// Which replicas a model gets from so many GPUs: several shapes (tensor x pipeline parallelism) at once.
//
// A shape alone is described by its rate curve: the p95 latency of one replica at a rate of requests, from runs of the
// fast path (sim/fast_path.h). From c_s(T), the largest rate at which shape s keeps p95 within T, follows the best mix
// of f GPUs: an unbounded knapsack,
//
//   K(T, f) = max sum_s c_s(T) n_s   subject to   sum_s g_s n_s <= f,
//
// and l(f) at rate r is the least T with K(T, f) >= r. Replicas get requests in proportion to c_s(T), so that each
// keeps p95 within T, and so do all together. Cascadia (section 3.2) simulates every multiset of shapes instead, with
// round robin over unequal replicas.
#ifndef TAKT_PLANNING_PARALLELISM_H_
#define TAKT_PLANNING_PARALLELISM_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/parallel.h"
#include "takt/planning/allocation.h"
#include "takt/sim/fast_path.h"
#include "takt/sim/profiles.h"

namespace takt {

struct RequestLengths {
  std::int32_t prompt = 1, output = 1;  // tokens

  friend constexpr bool operator==(const RequestLengths&, const RequestLengths&) = default;
};

// A model, and the shapes that a replica of it may have: one profile each, at most one per tp and pp.
struct ServedModel {
  std::string name;
  std::vector<Profile> shapes = {};
  // Of a replica's engine. Its KV cache is the profile's.
  std::int32_t token_budget = 2048;
  std::int32_t max_seqs = 256;
  double prefix_hit_rate = 0;  // share of each prompt that is in the prefix cache (Cascadia, Appendix M)
};

// Profiles of `<id>/tp<N>` and `<id>/tp<N>/pp<M>` for these degrees, as FindProfile knows them; degrees for which
// there is no such profile, or whose stages do not divide the layers, are left out. NotFound: there is none at all.
absl::StatusOr<std::vector<Profile>> FindShapes(std::string_view id, std::span<const std::int32_t> tp,
                                                std::span<const std::int32_t> pp, std::span<const Profile> more = {});

// The p95 latency of one replica by the rate of its requests.
class RateCurve {
 public:
  struct Point {
    double rate = 0;  // [1/s]
    double p95 = 0;   // [s]
    friend constexpr bool operator==(const Point&, const Point&) = default;
  };

  RateCurve() = default;
  // In any order; the first by rate is rate 0, each request alone. More load is never faster: where a run says
  // otherwise, that is chance, and the slower of the two holds.
  explicit RateCurve(std::vector<Point> points);

  // Largest rate with p95 within `latency`, linear between points (a chord of a convex curve: on the safe side);
  // 0 where a request alone takes longer.
  double LargestRate(double latency) const;
  // p95 at the rate; infinite beyond the last point.
  double Latency(double rate) const;

  double alone() const { return points_.empty() ? 0 : points_.front().p95; }
  double saturation() const { return points_.empty() ? 0 : points_.back().rate; }
  std::span<const Point> points() const { return points_; }

 private:
  std::vector<Point> points_;  // both rise
};

struct RateOptions {
  double quantile = 0.95;
  double slowest = 10;       // beyond so many times p95 alone a replica only queues: the curve ends, as it does...
                        // ...at the rate that it serves when all requests are there from the start
  double resolution = 0.05;  // neighbours on a curve differ by at most so much in p95 or in rate, as a share...
  int runs = 16;  // ...while no more runs than this have been made for it
  // A run lasts so many times p95 alone, but has at least and at most so many requests, in whole turns of the lengths
  // (and at least one). A quarter as many come before them, while the engine fills up, and do not count.
  double horizon = 20;
  std::int64_t least_requests = 600, most_requests = 4000;
  std::uint64_t seed = 1;  // of arrivals; all curves see the same

  absl::Status Validate() const;  // all faults at once, by field
};

struct ShapeRates {
  std::size_t shape = 0;  // index into ServedModel::shapes
  std::int32_t gpus = 1;
  RateCurve curve;
};

struct ModelRates {
  std::vector<ShapeRates> shapes;  // without those that memory rules out
};

// The curves of all shapes of all models; lengths[i] is what model i is asked for, drawn from in turn.
// InvalidArgument: options, no lengths, a shape at fault. FailedPrecondition: a model whose weights, with a request's
// KV, fit into no shape; says how much memory is missing. Cancelled: by `progress`.
absl::StatusOr<std::vector<ModelRates>> MeasureRates(std::span<const ServedModel> models,
                                                     std::span<const std::vector<RequestLengths>> lengths,
                                                     const RateOptions& options,
                                                     const ParallelFor& parallel = SerialFor,
                                                     const Progress& progress = {});

struct ReplicaCount {
  std::size_t shape = 0;  // index into ServedModel::shapes
  std::int32_t count = 0;
  double rate = 0;  // c_s(T) of one: its share of the requests, up to a factor

  friend constexpr bool operator==(const ReplicaCount&, const ReplicaCount&) = default;
};

// K(T, f) of several models for a grid of latencies T, which it shares among them.
class MixTable {
 public:
  // Latencies from the least that any model can do to the slowest on any curve, each `step` above the one before
  // (0.01: 1 %). `gpus` is the largest f.
  MixTable(std::span<const ModelRates> models, std::int32_t gpus, double step = 0.01);

  std::size_t models() const { return models_.size(); }
  std::int32_t gpus() const { return static_cast<std::int32_t>(row_) - 1; }
  std::span<const double> latencies() const { return latencies_; }

  // K(T, f) with T = latencies()[level]; never falls as either rises.
  double Rate(std::size_t model, std::size_t level, std::int32_t f) const {
    return rates_[(model * latencies_.size() + level) * row_ + static_cast<std::size_t>(f)];
  }
  // The fewest GPUs that serve the rate within T; none where there is nothing to serve, gpus() + 1 where all are too
  // few.
  std::int32_t LeastGpus(std::size_t model, std::size_t level, double rate) const;
  // The lowest level at which f GPUs serve the rate; latencies().size() where there is none.
  std::size_t LeastLevel(std::size_t model, std::int32_t f, double rate) const;
  // The same as a latency: 0 where there is nothing to serve, infinite where there is none.
  double Latency(std::size_t model, std::int32_t f, double rate) const;
  // l_i(f) for all models and f.
  LatencyTable Latencies(std::span<const double> rates) const;
  // The replicas of K(T, f).
  std::vector<ReplicaCount> Mix(std::size_t model, std::size_t level, std::int32_t f) const;
  // The latency of replicas that are there already: the least T with sum_s c_s(T) n_s >= rate.
  double MixLatency(std::size_t model, std::span<const ReplicaCount> mix, double rate) const;

 private:
  std::vector<ModelRates> models_;
  std::vector<double> latencies_;
  std::size_t row_ = 1;
  std::vector<double> rates_;  // models x levels x (gpus + 1)
};

struct MixRun {
  double p95 = 0;  // [s], of the quantile asked for; infinite where a request failed
  double mean = 0;  // [s]
  double utilisation = 0;  // share of the time in which a replica ran an iteration, mean over the replicas
};

// Serves requests (in the order of arrival) by a mix: each goes to the replica that has got the least of what it
// should have by `rate` (smooth weighted round robin). `ends` are theirs, as long as `requests`.
MixRun SimulateMix(const ServedModel& model, std::span<const ReplicaCount> mix, std::span<const FastRequest> requests,
                   std::span<double> ends, double quantile = 0.95);

}  // namespace takt

#endif  // TAKT_PLANNING_PARALLELISM_H_
