// Histograms of requests by class, and the saturation of a queue, from the transitions of a scheduler or router.
#ifndef TAKT_METRICS_REQUEST_METRICS_H_
#define TAKT_METRICS_REQUEST_METRICS_H_

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/exact_math.h"
#include "takt/base/faults.h"
#include "takt/base/names.h"
#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/base/time.h"
#include "takt/metrics/exposition.h"
#include "takt/metrics/half_octaves.h"
#include "takt/model/request.h"
#include "takt/state/transition.h"

namespace takt {

// The field of a request that is its class. The name is the name of the label.
enum class ClassBy : std::uint8_t { kPriority, kTenant, kAgent, kAdapter };
constexpr auto NamesOf(ClassBy) { return std::to_array<std::string_view>({"priority", "tenant", "agent", "adapter"}); }

struct MetricsOptions {
  ClassBy by = ClassBy::kPriority;
  // Maximum label values. Later values share the class "other".
  std::int32_t max_classes = 64;
  // Maximum living requests that are measured. Storage for them is allocated at creation. Other requests are counted.
  std::int32_t max_requests = 16384;
  // Time constant of the drain rate and the late share: older events count less by 1/e [s].
  double window_s = 60;

  template <class Self, class List>
  static constexpr auto ListOptions(Self& self, List&& list) {
    return list(Option("by", self.by), Option("max_classes", self.max_classes, {.least = 1, .most = 64}),
                Option("max_requests", self.max_requests, {.least = 1, .most = 1 << 24}),
                Option("window_s", self.window_s, {.least = 0.001, .most = 1e6}));
  }
  absl::Status Validate() const {
    Faults faults;
    faults.ExpectOptions(*this);
    return faults.ToStatus();
  }
};

// The load of a queue relative to the rate at which it becomes shorter. One figure for gateways and autoscalers.
struct Saturation {
  // Largest seconds_to_clear: the queue needs an hour or more, or no request has left the queue yet.
  static constexpr double kMostSeconds = 3600;

  double seconds_to_clear = 0;  // backlog_tokens / drain_tokens_per_s; 0: no request waits
  double drain_tokens_per_s = 0;  // rate at which waiting tokens got rows, over the time in which requests waited
  double kv_share = 0;  // share of the KV cache in use, 0 to 1; 0: unknown
  double late_share = 0;  // share of ended requests with a deadline or an expiry that were late, 0 to 1
  std::int64_t backlog_tokens = 0;  // context tokens of the waiting requests
};

// Figures of the requests of one class.
struct ClassFigures {
  std::string label;
  HalfOctaves queue_s{-10, 20};  // time from arrival to the first row
  HalfOctaves first_token_s{-10, 20};  // time from arrival to the first output token
  // Mean time per output token after the first one, without time in tool calls and blocks. The remaining histograms are
  // of finished requests.
  HalfOctaves token_s{-14, 18};
  HalfOctaves end_to_end_s{-10, 20};  // time from arrival to the end
  HalfOctaves preemptions{-1, 7};  // preemptions of a request
  HalfOctaves recomputed{-1, 21};  // context tokens of a request that were computed again
  std::int64_t arrived = 0;
  std::array<std::int64_t, NamesOf(TransitionReason{}).size()> ended = {};  // by TransitionReason
};

// Learns from the transitions of one scheduler or router, which must Watch(observer()). A transition costs O(1), and no
// transition allocates. An arrival costs O(classes).
class RequestMetrics {
 public:
  static constexpr std::string_view kOther = "other";

  // InvalidArgument lists all invalid options.
  static absl::StatusOr<std::unique_ptr<RequestMetrics>> Create(const MetricsOptions& options) {
    if (absl::Status status = options.Validate(); !status.ok()) return status;
    return std::unique_ptr<RequestMetrics>(new RequestMetrics(options));
  }
  RequestMetrics(const RequestMetrics&) = delete;
  RequestMetrics& operator=(const RequestMetrics&) = delete;

  Observer observer() {
    return {[](void* metrics, const Transition& t) { static_cast<RequestMetrics*>(metrics)->See(t); }, this};
  }

  // Gives a class a name before its first request, for example Name(-1, "batch"). Classes with equal names are one.
  // Returns false if the class has a label, or all labels are in use. Allocates.
  bool Name(std::int64_t key, std::string_view name) {
    if (Find(key) != nullptr || keys_.size() == keys_.capacity()) return false;
    const std::string label = LabelValue(name);
    const std::size_t at = label == kOther ? 0 : ClassOf(label);
    if (at == 0 && label != kOther) return false;
    keys_.push_back({key, static_cast<std::uint8_t>(at)});
    return true;
  }

  void See(const Transition& t) {
    Advance(t.at);
    if (t.slot >= lives_.size()) return Count(t);
    Life& life = lives_[t.slot];
    if (t.from == RequestStatus::kUnknown) {
      life = {.of = ClassOf(*t.about), .lives = true};
      ++classes_[life.of].arrived;
    } else if (!life.lives) {
      return;  // it arrived before the observer
    }
    ClassFigures& figures = classes_[life.of];
    if (t.from == RequestStatus::kWaiting && t.to != RequestStatus::kWaiting) {
      backlog_ -= life.queued;
      // Without others behind it, a request shows how fast requests arrive, and not how fast the queue drains.
      if (t.to == RequestStatus::kRunning && backlog_ > 0) drained_ += static_cast<double>(life.queued);
    }
    if (t.to == RequestStatus::kWaiting) backlog_ += life.queued = std::max(t.known.value, 0);
    const Duration since_arrival = Passed(t.about->arrival, t.at);
    const auto away = [](RequestStatus s) { return s == RequestStatus::kPaused || s == RequestStatus::kBlocked; };
    if (away(t.from) && life.has_token) life.first_token = After(life.first_token, Passed(life.away_since, t.at));
    if (away(t.to)) life.away_since = t.at;
    if (t.reason == TransitionReason::kAdmitted) figures.queue_s.Add(ToSeconds(since_arrival));
    if (t.reason == TransitionReason::kFirstToken && !std::exchange(life.has_token, true)) {
      life.first_token = t.at;
      figures.first_token_s.Add(ToSeconds(since_arrival));
    }
    const bool preempted = t.reason == TransitionReason::kPreemptedKv || t.reason == TransitionReason::kPreemptedRank;
    if (preempted && life.preemptions < UINT16_MAX) ++life.preemptions;
    if (t.to == RequestStatus::kDead) End(t, life, figures);
  }

  Saturation Read(TimePoint now, double kv_share = 0) {
    Advance(now);
    Settle();
    Saturation s;
    s.kv_share = kv_share;
    s.backlog_tokens = backlog_;
    s.drain_tokens_per_s = busy_s_ > 0 ? drained_ / busy_s_ : 0;
    s.late_share = due_ > 0 ? late_ / due_ : 0;
    if (backlog_ <= 0) return s;
    s.seconds_to_clear = s.drain_tokens_per_s > 0
                             ? std::min(static_cast<double>(backlog_) / s.drain_tokens_per_s, Saturation::kMostSeconds)
                             : Saturation::kMostSeconds;
    return s;
  }

  // Figures by class. The first is "other", which is empty while the labels suffice.
  std::span<const ClassFigures> classes() const { return std::span(classes_).first(used_); }
  std::int64_t unmeasured() const { return unmeasured_; }  // requests beyond max_requests
  const MetricsOptions& options() const { return options_; }

 private:
  struct Life {
    TimePoint first_token{};  // plus the time in tool calls and blocks since then
    TimePoint away_since{};
    std::int32_t queued = 0;  // context tokens when the request joined the queue
    std::uint16_t preemptions = 0;
    std::uint8_t of = 0;  // class
    bool lives = false;
    bool has_token = false;
  };
  struct Key {
    std::int64_t key = 0;
    std::uint8_t of = 0;
  };
  static constexpr std::size_t kMostKeys = 256;  // keys with a name or a label

  explicit RequestMetrics(const MetricsOptions& options)
      : options_(options),
        classes_(static_cast<std::size_t>(options.max_classes) + 1),
        lives_(static_cast<std::size_t>(options.max_requests)),
        piece_(FromSeconds(options.window_s / 256)) {
    classes_[0].label = kOther;
    for (ClassFigures& figures : classes_) figures.label.reserve(kMostLabelBytes);
    keys_.reserve(kMostKeys);
  }

  static Duration Passed(TimePoint from, TimePoint to) { return std::max(Between(from, to), Duration::zero()); }

  const Key* Find(std::int64_t key) const {
    const auto found = std::ranges::find(keys_, key, &Key::key);
    return found == keys_.end() ? nullptr : &*found;
  }
  // Returns the class with this label, possibly new; 0 if all labels are in use.
  std::size_t ClassOf(std::string_view label) {
    for (std::size_t i = 1; i < used_; ++i) {
      if (classes_[i].label == label) return i;
    }
    if (used_ == classes_.size()) return 0;
    classes_[used_].label.assign(label);
    return used_++;
  }
  std::uint8_t ClassOf(const Request& r) {
    std::int64_t key = r.priority;
    switch (options_.by) {
      case ClassBy::kPriority: break;
      case ClassBy::kTenant: key = static_cast<std::int64_t>(r.tenant.value); break;
      case ClassBy::kAgent: key = static_cast<std::int64_t>(r.agent.value); break;
      case ClassBy::kAdapter: key = static_cast<std::int64_t>(r.adapter.value); break;
    }
    if (const Key* known = Find(key)) return known->of;
    if (keys_.size() == keys_.capacity() || used_ == classes_.size()) return 0;
    char digits[24];
    const char* const end = options_.by == ClassBy::kPriority
                                ? std::to_chars(digits, digits + sizeof digits, key).ptr
                                : std::to_chars(digits, digits + sizeof digits, static_cast<std::uint64_t>(key)).ptr;
    keys_.push_back({key, static_cast<std::uint8_t>(ClassOf(std::string_view(digits, end)))});
    return keys_.back().of;
  }

  // Counts a request that was refused, or one beyond max_requests.
  void Count(const Transition& t) {
    if (t.slot != kNoSlot && t.from == RequestStatus::kUnknown) ++unmeasured_;
    ClassFigures& figures = classes_[ClassOf(*t.about)];
    if (t.slot != kNoSlot && t.from == RequestStatus::kUnknown) ++figures.arrived;
    if (t.to == RequestStatus::kDead) ++figures.ended[static_cast<std::size_t>(t.reason)];
  }

  void End(const Transition& t, Life& life, ClassFigures& figures) {
    life.lives = false;
    ++figures.ended[static_cast<std::size_t>(t.reason)];
    const Request& r = *t.about;
    const bool late = t.at > r.deadline || t.reason != TransitionReason::kFinished;
    if ((r.deadline != kNever || r.expires_at != kNever) && t.reason != TransitionReason::kCancelled) {
      const double kept = Decay(Passed(late_at_, t.at));
      late_at_ = t.at;
      due_ = Rounded(due_ * kept) + 1, late_ = Rounded(late_ * kept) + (late ? 1 : 0);
    }
    if (t.reason != TransitionReason::kFinished) return;
    figures.end_to_end_s.Add(ToSeconds(Passed(r.arrival, t.at)));
    figures.preemptions.AddCount(life.preemptions);
    figures.recomputed.AddCount(t.recomputed.value);
    if (!life.has_token || t.generated.value < 2) return;
    figures.token_s.Add(ToSeconds(Passed(life.first_token, t.at)) / (t.generated.value - 1));
  }

  double Decay(Duration passed) const {
    return passed > Duration::zero() ? exact::Exp(-ToSeconds(passed) / options_.window_s) : 1;
  }
  // Lets time pass for the drain rate, if requests wait. Decays in pieces, because a decay costs an exponential.
  void Advance(TimePoint now) {
    if (now <= at_) return;
    if (backlog_ > 0) undecayed_ = Sum(undecayed_, Passed(at_, now));
    if (undecayed_ > piece_) Settle();
    at_ = now;
  }
  void Settle() {
    const double kept = Decay(undecayed_);
    drained_ = Rounded(drained_ * kept);
    busy_s_ = Rounded(busy_s_ * kept) + Rounded(options_.window_s * (1 - kept));
    undecayed_ = {};
  }

  MetricsOptions options_;
  std::vector<ClassFigures> classes_;  // "other", the classes in use, and room for more
  std::size_t used_ = 1;
  std::vector<Key> keys_;
  std::vector<Life> lives_;  // by slot
  std::int64_t unmeasured_ = 0;
  std::int64_t backlog_ = 0;
  double drained_ = 0, busy_s_ = 0;  // tokens that left the queue for a row, and time with a queue [s]
  Duration undecayed_{0};  // time with a queue since the last decay
  Duration piece_;
  double late_ = 0, due_ = 0;
  TimePoint at_ = kUnset, late_at_ = kUnset;
};

}  // namespace takt

#endif  // TAKT_METRICS_REQUEST_METRICS_H_
