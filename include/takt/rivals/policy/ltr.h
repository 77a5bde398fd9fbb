// LTR (learning to rank): shortest predicted output first, by a score that is computed once.
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

// Key: predicted output tokens in buckets of `bucket` tokens, from the call's first prediction. Later revisions do not
// change the key. Equal keys are ordered by arrival. Source: Fu et al., Efficient LLM Scheduling by Learning to Rank
// (2024). Its ranker is trained on buckets of 10 tokens (as a classifier: 820), and scores each request once, before
// its first step. The published guard against starvation is aged(ltr,threshold=200,quantum=10). Preemptive at every
// step, as published: PreemptMode::kByRank.
class Ltr {
 public:
  static constexpr std::string_view kName = "ltr";

  struct Options {
    double bucket = 10;  // size of a bucket [tokens]; 0: no buckets
    double unknown = 256;  // assumed output tokens until the length is predicted
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
    visit("bucket", self.options_.bucket,
          OptionText{"tokens", "width of a bucket of lengths with equal rank; 0: no buckets"});
    visit("unknown", self.options_.unknown, OptionText{"tokens", "output until the length is predicted"});
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
