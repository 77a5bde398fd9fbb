// A pause policy chosen at run time.
#ifndef TAKT_PAUSE_ANY_PAUSE_H_
#define TAKT_PAUSE_ANY_PAUSE_H_

#include <concepts>
#include <memory>
#include <string>
#include <utility>

#include "takt/base/spec.h"
#include "takt/pause/pause_policy.h"

namespace takt {

// Copyable handle. Copies share one immutable policy. Offers every optional hook. `predicts()` and `reviews()` return
// true if the policy has that hook.
class AnyPause {
 public:
  AnyPause() : AnyPause(KeepAll{}) {}

  template <PausePolicy P>
    requires(!std::same_as<P, AnyPause>)
  AnyPause(P policy)  // NOLINT: implicit, so that any policy converts
      : spec_(SpecOf(policy)), predicts_(PredictingPause<P>), reviews_(ReviewingPause<P>) {
    held_ = std::make_shared<const Held<P>>(std::move(policy));
  }

  const std::string& spec() const { return spec_; }  // text that MakePause accepts
  void Rename(const std::string&, std::string spec) { spec_ = std::move(spec); }
  bool predicts() const { return predicts_; }
  bool reviews() const { return reviews_; }

  PauseDecision AtCall(const RequestState& r, const ToolCalled& call, const PauseView& view) const {
    return held_->AtCall(r, call, view);
  }
  KvAction Predict(const RequestState& r, const PauseView& view) const { return held_->Predict(r, view); }
  PauseDecision Review(const RequestState& r, const ToolCalled& call, TimePoint since, const PauseView& view) const {
    return held_->Review(r, call, since, view);
  }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual PauseDecision AtCall(const RequestState&, const ToolCalled&, const PauseView&) const = 0;
    virtual KvAction Predict(const RequestState&, const PauseView&) const = 0;
    virtual PauseDecision Review(const RequestState&, const ToolCalled&, TimePoint, const PauseView&) const = 0;
  };
  template <class P>
  struct Held final : Base {
    explicit Held(P p) : policy(std::move(p)) {}
    PauseDecision AtCall(const RequestState& r, const ToolCalled& call, const PauseView& view) const override {
      return policy.AtCall(r, call, view);
    }
    KvAction Predict(const RequestState& r, const PauseView& view) const override {
      if constexpr (PredictingPause<P>) return policy.Predict(r, view);
      return KvAction::kKeep;
    }
    PauseDecision Review(const RequestState& r, const ToolCalled& call, TimePoint since,
                         const PauseView& view) const override {
      if constexpr (ReviewingPause<P>) return policy.Review(r, call, since, view);
      return {};
    }
    P policy;
  };

  std::shared_ptr<const Base> held_;
  std::string spec_;
  bool predicts_ = false, reviews_ = false;
};

}  // namespace takt

#endif  // TAKT_PAUSE_ANY_PAUSE_H_
