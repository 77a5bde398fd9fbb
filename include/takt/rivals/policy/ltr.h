// Learning to rank: the calls whose outputs are predicted shortest first, by a score that is given once (LTR).
#ifndef TAKT_RIVALS_POLICY_LTR_H_
#define TAKT_RIVALS_POLICY_LTR_H_

#include <cmath>
#include <cstddef>
#include <string_view>
#include <vector>

#include "takt/base/spec.h"
#include "takt/policy/rank_policy.h"
#include "takt/policy/sjf.h"

namespace takt {

// Key: sjf's, in buckets of `bucket` tokens, as it was when the call was first predicted: what is learnt later does not
// move it. Within a bucket in order of arrival. Source: Fu et al., Efficient LLM Scheduling by Learning to Rank (2024),
// whose ranker is trained on lengths in buckets of 10 (and, as a classifier, of 820), and scores each request once,
// before its first step. With the published guard against starvation, of the runs for fairness:
// aged(ltr,threshold=200,quantum=10). Preemptive at every step, as there: PreemptMode::kByRank.
class Ltr {
 public:
  static constexpr std::string_view kName = "ltr";

  struct Options {
    double bucket = 10;  // [tokens]; 0: no buckets
    double unknown = 256;  // [tokens] taken until the length is predicted
  };

  Ltr() = default;
  explicit Ltr(Options options) : options_(options) {}

  void Reserve(std::size_t requests) { scores_.reserve(requests); }
  void Enters(const RequestState& r, TimePoint) {
    if (Scored(r) || !r.request.output_tokens.known()) return;
    if (r.slot >= scores_.size()) scores_.resize(std::size_t{r.slot} + 1);
    scores_[r.slot] = {r.request.id, Fresh(r)};
  }
  void Ends(const RequestState& r, TimePoint) {
    if (Scored(r)) scores_[r.slot] = {};
  }
  RankKey Key(const RequestState& r) const { return Scored(r) ? scores_[r.slot].key : Fresh(r); }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("bucket", self.options_.bucket, OptionText{"tokens", "lengths in the same one rank alike; 0: none do"});
    visit("unknown", self.options_.unknown, OptionText{"tokens", "taken until the length is predicted"});
  }

 private:
  struct Score {
    RequestId id = {};
    RankKey key = {};
  };

  bool Scored(const RequestState& r) const {
    return r.slot < scores_.size() && scores_[r.slot].id && scores_[r.slot].id == r.request.id;
  }
  RankKey Fresh(const RequestState& r) const {
    const RankKey length = Sjf{.unknown = options_.unknown}.Key(r);
    return options_.bucket > 0 ? RankKey{std::floor(length.key / options_.bucket)} : length;
  }

  Options options_;
  std::vector<Score> scores_;  // by slot
};

}  // namespace takt

#endif  // TAKT_RIVALS_POLICY_LTR_H_
