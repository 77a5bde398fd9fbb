// Learns the execution time of each agent's calls and the remaining time of their workflows.
// docs/howto/latency_profile.md
#ifndef TAKT_LEARNING_LATENCY_PROFILE_H_
#define TAKT_LEARNING_LATENCY_PROFILE_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "takt/base/exact_math.h"
#include "takt/base/id.h"
#include "takt/base/slot_table.h"
#include "takt/learning/mode.h"
#include "takt/learning/quantile_sketch.h"
#include "takt/learning/wasserstein.h"

namespace takt {

struct LatencyOptions {
  std::int64_t first_samples = 32;  // number of samples before the first test for convergence; doubled for the next
  double converged_below = 0.05;  // maximum Wasserstein-1 distance, as a share of the mean, of a converged distribution
  std::int64_t keep = 4096;  // number of samples after which older samples count half
  double false_alarms = 1e-3;  // probability of a false alarm of drift, per window of kWindow samples
  double max_seconds = 1e5;  // maximum counted latency [s]
};

// One distribution of latencies in 2.6 KB, with bins 7.5 % wide.
//
// Convergence: each time the number of samples doubles, the distribution is compared with the previous one (Kairos,
// section 4.3). Drift: after convergence, each window of kWindow samples is compared with the distribution
// (Kolmogorov-Smirnov with Massart's bound, widened since the distribution is also a sample). If the window differs, it
// replaces the distribution, and convergence starts again. Otherwise it joins the distribution.
class LatencyDistribution {
 public:
  static constexpr std::size_t kLevels = 32;
  static constexpr std::size_t kWindow = 50;
  using Curve = std::array<float, kLevels>;  // latency at each quantile (k + 0.5) / kLevels [s]

  explicit LatencyDistribution(const LatencyOptions& options = {}) : options_(options), sketch_(Bins()) {
    options_.first_samples = std::clamp<std::int64_t>(options.first_samples, 2, 1 << 20);
    options_.keep = std::clamp<std::int64_t>(options.keep, 2 * options_.first_samples, 1 << 30);
    next_look_ = options_.first_samples;
  }

  // Adds a latency. Returns false for negative values and NaN, which are ignored.
  bool Observe(double seconds) {
    if (!(seconds >= 0)) return false;
    seconds = std::min(seconds, options_.max_seconds);
    ++observed_;
    if (!converged_) {
      Learn(seconds);
      Look();
      return true;
    }
    window_[in_window_++] = static_cast<float>(seconds);
    if (in_window_ == kWindow) TakeWindow();
    return true;
  }

  std::int64_t count() const { return sketch_.count(); }  // weight of the samples
  std::int64_t observed() const { return observed_; }  // number of all samples so far
  double mean() const { return sketch_.mean(); }  // mean latency; 0 without samples
  double deviation() const { return sketch_.deviation(); }
  bool converged() const { return converged_; }
  std::int64_t drifts() const { return drifts_; }
  std::uint64_t version() const { return version_; }  // number that changes with curve()
  const Curve& curve() const { return curve_; }  // curve at the last test for convergence; zeros before any sample

  // Returns the most frequent latency (half-sample mode of the quantile function); 0 without samples.
  double mode() const { return mode_; }

  const QuantileSketch<LogHistogram>& sketch() const { return sketch_; }

  // Restores a saved state; samples of an open window are lost.
  void Restore(const QuantileSketch<LogHistogram>& sketch, std::int64_t observed, std::int64_t drifts, bool converged) {
    sketch_ = sketch, observed_ = observed, drifts_ = drifts, converged_ = converged;
    in_window_ = 0;
    while (next_look_ <= sketch_.count()) next_look_ *= 2;
    ReadCurve();
    last_look_ = curve_;
  }

  static LogHistogram Bins() { return LogHistogram(1e-3, 1e5, 256); }

 private:
  void Learn(double seconds) {
    if (sketch_.count() >= options_.keep) sketch_.Halve();
    sketch_.Observe(seconds);
  }

  void ReadCurve() {
    constexpr std::size_t kFine = 4 * kLevels + 1;  // number of levels, including odd multiples of half a level
    std::array<double, kFine> levels, fine;
    for (std::size_t i = 0; i < kFine; ++i) levels[i] = static_cast<double>(i) / (kFine - 1);
    sketch_.Quantiles(levels, fine.begin());
    for (std::size_t k = 0; k < kLevels; ++k) curve_[k] = static_cast<float>(fine[4 * k + 2]);
    mode_ = sketch_.count() > 0 ? HalfSampleMode(fine) : 0;
    ++version_;
  }

  // Updates the curve. Before the first test for convergence, it is updated at every power of two.
  void Look() {
    const std::int64_t n = sketch_.count();
    if (n < options_.first_samples) {
      if ((n & (n - 1)) == 0) ReadCurve();
      return;
    }
    if (n < next_look_) return;
    ReadCurve();
    const double moved = QuantileDistance<float>(curve_, last_look_);
    converged_ = (next_look_ > options_.first_samples && moved <= options_.converged_below * sketch_.mean()) ||
                 2 * next_look_ > options_.keep;
    last_look_ = curve_;
    next_look_ *= 2;
  }

  void TakeWindow() {
    in_window_ = 0;
    if (Drifted()) {
      ++drifts_;
      sketch_ = QuantileSketch<LogHistogram>(Bins());
      converged_ = false;
    }
    for (const float seconds : window_) Learn(static_cast<double>(seconds));
    ReadCurve();
    if (converged_) return;
    last_look_ = curve_;
    next_look_ = std::max(options_.first_samples, 2 * static_cast<std::int64_t>(kWindow));
  }

  bool Drifted() const {
    std::array<std::size_t, kWindow> at;
    for (std::size_t i = 0; i < kWindow; ++i) at[i] = sketch_.histogram().BinOf(static_cast<double>(window_[i]));
    std::sort(at.begin(), at.end());
    const std::span<const std::int64_t> counts = sketch_.histogram().counts();
    std::int64_t total = 0;
    for (const std::int64_t c : counts) total += c;
    if (total == 0) return false;
    double most = 0;
    std::int64_t below = 0;
    std::size_t seen = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      below += counts[i];
      while (seen < kWindow && at[seen] <= i) ++seen;
      most = std::max(most, std::abs(static_cast<double>(below) / static_cast<double>(total) -
                                     static_cast<double>(seen) / static_cast<double>(kWindow)));
    }
    const double n = static_cast<double>(kWindow), m = static_cast<double>(std::max<std::int64_t>(sketch_.count(), 1));
    return most > std::sqrt(-exact::Log(options_.false_alarms / 2) / 2 * (1 / n + 1 / m));
  }

  LatencyOptions options_;
  QuantileSketch<LogHistogram> sketch_;
  Curve curve_ = {}, last_look_ = {};
  double mode_ = 0;
  std::array<float, kWindow> window_ = {};  // samples after convergence that have not joined the sketch
  std::size_t in_window_ = 0;
  std::int64_t next_look_ = 0;
  std::int64_t observed_ = 0, drifts_ = 0;
  std::uint64_t version_ = 0;
  bool converged_ = false;
};

struct AgentLatency {
  AgentId agent = {};
  LatencyDistribution execution;  // execution time of a call [s]
  LatencyDistribution remaining;  // time from the start of a call to the end of its workflow [s]
};

struct LatencyProfileOptions {
  LatencyOptions latency = {};
  std::uint32_t max_agents = 8192;  // maximum agents, about 5 KB each; only all() learns from further agents
  std::uint64_t hash_seed = 0;  // seed of hashes of agents, as SchedulerOptions::hash_seed
};

// Latencies per agent, and of all agents together. Any input is accepted.
class LatencyProfile {
 public:
  explicit LatencyProfile(const LatencyProfileOptions& options = {}) : options_(options) {
    all_.execution = all_.remaining = LatencyDistribution(options.latency);
    agents_.KeyHashes(options.hash_seed);
  }

  void ObserveExecution(AgentId agent, double seconds) {
    if (!all_.execution.Observe(seconds)) {
      ++refused_;
    } else if (AgentLatency* known = At(agent)) {
      known->execution.Observe(seconds);
    }
  }
  void ObserveRemaining(AgentId agent, double seconds) {
    if (!all_.remaining.Observe(seconds)) {
      ++refused_;
    } else if (AgentLatency* known = At(agent)) {
      known->remaining.Observe(seconds);
    }
  }

  // Returns the agent's latencies; null if unknown.
  const AgentLatency* Find(AgentId agent) const { return agents_.Get(agent); }
  const AgentLatency& all() const { return all_; }
  std::span<const AgentLatency> agents() const { return agents_.records(); }  // agents in order of appearance
  std::int64_t refused() const { return refused_; }  // number of invalid latencies
  std::int64_t unplaced() const { return unplaced_; }  // number of latencies of agents beyond max_agents

  // Returns the agent's entry, new if necessary, for Restore; null if there is no room.
  AgentLatency* Restore(AgentId agent) { return At(agent); }
  AgentLatency& RestoreAll() { return all_; }

  // Returns the table entries visited by a look-up; for tests.
  std::size_t Looks(AgentId agent) const { return agents_.Looks(agent); }

 private:
  AgentLatency* At(AgentId agent) {
    if (AgentLatency* known = agents_.Get(agent)) return known;
    if (agents_.size() >= options_.max_agents) return ++unplaced_, nullptr;
    const LatencyDistribution fresh(options_.latency);
    return &agents_[agents_.Insert(agent, {agent, fresh, fresh})];
  }

  LatencyProfileOptions options_;
  AgentLatency all_;
  IdTable<AgentId, AgentLatency> agents_;
  std::int64_t refused_ = 0, unplaced_ = 0;
};

}  // namespace takt

#endif  // TAKT_LEARNING_LATENCY_PROFILE_H_
