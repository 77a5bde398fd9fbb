// Chooses a model's replicas for a number of GPUs. A replica's shape is its tensor and pipeline parallelism.
//
// The rate curve of a shape is the p95 latency of one replica at each request rate, as measured on the fast path
// (sim/fast_path.h). Let c_s(T) be the largest rate at which shape s keeps p95 within T. The best mix of f GPUs then is
// an unbounded knapsack:
//
//   K(T, f) = max sum_s c_s(T) n_s   subject to   sum_s g_s n_s <= f
//
// l(f) at rate r is the least T with K(T, f) >= r. Replicas get requests in proportion to c_s(T), so each replica keeps
// p95 within T. The mix then also does. Cascadia (section 3.2) instead simulates every multiset of shapes, with round
// robin over unequal replicas.
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
  std::int32_t prompt = 1, output = 1;  // prompt and output length [tokens]

  friend constexpr bool operator==(const RequestLengths&, const RequestLengths&) = default;
};

// A model and its possible shapes: one profile per shape, at most one shape per tp and pp.
struct ServedModel {
  std::string name;
  std::vector<Profile> shapes = {};
  // Engine of a replica. The size of its KV cache comes from the profile.
  std::int32_t token_budget = 2048;
  std::int32_t max_seqs = 256;
  double prefix_hit_rate = 0;  // share of each prompt in the prefix cache (Cascadia, Appendix M)
};

// Returns the profiles `<id>/tp<N>` and `<id>/tp<N>/pp<M>` of FindProfile for these degrees. Omits degrees without a
// profile, and those whose stages do not divide the layers. NotFound: no profile.
absl::StatusOr<std::vector<Profile>> FindShapes(std::string_view id, std::span<const std::int32_t> tp,
                                                std::span<const std::int32_t> pp, std::span<const Profile> more = {});

// p95 latency of one replica at each request rate.
class RateCurve {
 public:
  struct Point {
    double rate = 0;  // request rate [1/s]
    double p95 = 0;  // p95 latency [s]
    friend constexpr bool operator==(const Point&, const Point&) = default;
  };

  RateCurve() = default;
  // Takes points in any order. The first by rate must be rate 0, at which each request runs alone. If by chance a
  // higher rate has a smaller p95, the larger p95 is used for both rates.
  explicit RateCurve(std::vector<Point> points);

  // Returns the largest rate with p95 within `latency`; 0 if a request alone takes longer. Linear between points, which
  // is conservative because the curve is convex.
  double LargestRate(double latency) const;
  // Returns p95 at the rate; infinite beyond the last point.
  double Latency(double rate) const;

  double alone() const { return points_.empty() ? 0 : points_.front().p95; }
  double saturation() const { return points_.empty() ? 0 : points_.back().rate; }
  std::span<const Point> points() const { return points_; }

 private:
  std::vector<Point> points_;  // rates and latencies ascend
};

struct RateOptions {
  double quantile = 0.95;
  double slowest = 10;  // multiple of a lone request's p95 at which the curve ends, unless the queue fills up earlier
  double resolution = 0.05;  // maximum relative difference of neighbouring points in p95 or in rate
  int runs = 16;  // maximum runs per curve
  // Length of a run, as a multiple of a lone request's p95, within minimum and maximum numbers of requests. A run uses
  // whole cycles of the lengths, at least one. A quarter as many requests first fill the engine and do not count.
  double horizon = 20;
  std::int64_t least_requests = 600, most_requests = 4000;
  std::uint64_t seed = 1;  // seed of arrivals, the same for all curves

  absl::Status Validate() const;  // Returns InvalidArgument with all invalid fields.
};

struct ShapeRates {
  std::size_t shape = 0;  // index into ServedModel::shapes
  std::int32_t gpus = 1;
  RateCurve curve;
};

struct ModelRates {
  std::vector<ShapeRates> shapes;  // rate curves of the shapes that fit into memory
};

// Measures the curves of all shapes of all models. lengths[i] are the requests of model i, used in turn.
// InvalidArgument: invalid options, no lengths, or an invalid shape. FailedPrecondition: a model fits into no shape
// with a request's KV; the message names the missing memory. Cancelled: `progress` returned false.
absl::StatusOr<std::vector<ModelRates>> MeasureRates(std::span<const ServedModel> models,
                                                     std::span<const std::vector<RequestLengths>> lengths,
                                                     const RateOptions& options,
                                                     const ParallelFor& parallel = SerialFor,
                                                     const Progress& progress = {});

struct ReplicaCount {
  std::size_t shape = 0;  // index into ServedModel::shapes
  std::int32_t count = 0;
  double rate = 0;  // c_s(T) of one replica; replicas get requests in proportion to c_s(T)

  friend constexpr bool operator==(const ReplicaCount&, const ReplicaCount&) = default;
};

// K(T, f) of several models, on a common grid of latencies T.
class MixTable {
 public:
  // The grid's latencies ascend from the least of any model to the largest on any curve. Each latency is larger than
  // the previous one by the share `step`. `gpus` is the largest f.
  MixTable(std::span<const ModelRates> models, std::int32_t gpus, double step = 0.01);

  std::size_t models() const { return models_.size(); }
  std::int32_t gpus() const { return static_cast<std::int32_t>(row_) - 1; }
  std::span<const double> latencies() const { return latencies_; }

  // Returns K(T, f) with T = latencies()[level]. K never falls if T or f grows.
  double Rate(std::size_t model, std::size_t level, std::int32_t f) const {
    return rates_[(model * latencies_.size() + level) * row_ + static_cast<std::size_t>(f)];
  }
  // Returns the fewest GPUs that serve the rate within T; 0 if the rate is 0, gpus() + 1 if all GPUs are not enough.
  std::int32_t LeastGpus(std::size_t model, std::size_t level, double rate) const;
  // Returns the lowest level at which f GPUs serve the rate; latencies().size() if there is none.
  std::size_t LeastLevel(std::size_t model, std::int32_t f, double rate) const;
  // Returns the least grid latency at which f GPUs serve the rate; 0 if the rate is 0, infinite if there is none.
  double Latency(std::size_t model, std::int32_t f, double rate) const;
  // Returns l_i(f) for all models and f.
  LatencyTable Latencies(std::span<const double> rates) const;
  // Returns the replicas of K(T, f).
  std::vector<ReplicaCount> Mix(std::size_t model, std::size_t level, std::int32_t f) const;
  // Returns the latency of given replicas: the least T with sum_s c_s(T) n_s >= rate.
  double MixLatency(std::size_t model, std::span<const ReplicaCount> mix, double rate) const;

 private:
  std::vector<ModelRates> models_;
  std::vector<double> latencies_;
  std::size_t row_ = 1;
  std::vector<double> rates_;  // rates by model, level and number of GPUs
};

struct MixRun {
  double p95 = 0;  // requested quantile of the latencies [s]; infinite if a request failed
  double mean = 0;  // mean latency [s]
  double utilisation = 0;  // mean share of time in which a replica runs an iteration
};

// Serves requests in order of arrival by a mix. Replicas have shares in proportion to `rate`. Each request goes to the
// replica that is furthest behind its share (smooth weighted round robin). `ends` are the requests' ends, in order.
MixRun SimulateMix(const ServedModel& model, std::span<const ReplicaCount> mix, std::span<const FastRequest> requests,
                   std::span<double> ends, double quantile = 0.95);

}  // namespace takt

#endif  // TAKT_PLANNING_PARALLELISM_H_
