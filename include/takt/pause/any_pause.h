// A pause policy chosen at run time.
#ifndef TAKT_PAUSE_ANY_PAUSE_H_
#define TAKT_PAUSE_ANY_PAUSE_H_

#include <memory>
#include <string_view>
#include <utility>

#include "takt/pause/pause_policy.h"

namespace takt {

// Copyable handle; copies share one immutable policy.
class AnyPause {
 public:
  AnyPause() : AnyPause(KeepAll{}) {}

  template <PausePolicy P>
  AnyPause(P policy) : held_(std::make_shared<const Held<P>>(std::move(policy))), name_(P::kName) {}  // NOLINT

  std::string_view name() const { return name_; }
  KvAction AtCall(const RequestState& r, const ToolCalled& call, const PauseView& view) const {
    return held_->AtCall(r, call, view);
  }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual KvAction AtCall(const RequestState&, const ToolCalled&, const PauseView&) const = 0;
  };
  template <class P>
  struct Held final : Base {
    explicit Held(P p) : policy(std::move(p)) {}
    KvAction AtCall(const RequestState& r, const ToolCalled& call, const PauseView& view) const override {
      return policy.AtCall(r, call, view);
    }
    P policy;
  };

  std::shared_ptr<const Base> held_;
  std::string_view name_;
};

}  // namespace takt

#endif  // TAKT_PAUSE_ANY_PAUSE_H_
