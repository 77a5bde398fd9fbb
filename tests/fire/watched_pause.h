// A recording pause policy: lists the scheduler's questions and its answers.
#ifndef TAKT_TESTS_FIRE_WATCHED_PAUSE_H_
#define TAKT_TESTS_FIRE_WATCHED_PAUSE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "memory.h"
#include "takt/pause/any_pause.h"

namespace takt::fire {

struct Asked {
  enum class What : std::uint8_t { kAtCall, kPredict, kReview } what = What::kAtCall;
  RequestId request = {};
  PauseView view = {};
  PauseDecision decision = {};  // kPredict: the predicted action alone
  ToolCalled call = {};         // not set for kPredict
  NextCall next_call = {};      // kPredict only
  TimePoint since{};            // kReview only
};

class WatchedPause {
 public:
  using List = std::shared_ptr<std::vector<Asked>>;

  WatchedPause(AnyPause pause, List asked) : pause_(std::move(pause)), asked_(std::move(asked)) {}

  std::string spec() const { return pause_.spec(); }
  PauseDecision AtCall(const RequestState& r, const ToolCalled& call, const PauseView& view) const {
    const OfTheHost memory;
    const PauseDecision decision = pause_.AtCall(r, call, view);
    asked_->push_back({Asked::What::kAtCall, r.request.id, view, decision, call});
    return decision;
  }
  PauseDecision Review(const RequestState& r, const ToolCalled& call, TimePoint since, const PauseView& view) const {
    const OfTheHost memory;
    const PauseDecision decision = pause_.Review(r, call, since, view);
    asked_->push_back({Asked::What::kReview, r.request.id, view, decision, call, {}, since});
    return decision;
  }

  // A wrapper that predicts if `pause` does. The scheduler asks it no more than `pause` itself.
  static AnyPause Of(AnyPause pause, List asked);

 protected:
  AnyPause pause_;
  List asked_;
};

class WatchedPrediction : public WatchedPause {
 public:
  using WatchedPause::WatchedPause;

  KvAction Predict(const RequestState& r, const PauseView& view) const {
    const OfTheHost memory;
    const KvAction action = pause_.Predict(r, view);
    asked_->push_back({.what = Asked::What::kPredict,
                       .request = r.request.id,
                       .view = view,
                       .decision = action,
                       .next_call = r.request.next_call});
    return action;
  }
};

inline AnyPause WatchedPause::Of(AnyPause pause, List asked) {
  if (!pause.predicts()) return WatchedPause(std::move(pause), std::move(asked));
  return WatchedPrediction(std::move(pause), std::move(asked));
}

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_WATCHED_PAUSE_H_
