// A retention policy chosen at run time.
#ifndef TAKT_TURNS_RETENTION_ANY_RETENTION_H_
#define TAKT_TURNS_RETENTION_ANY_RETENTION_H_

#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "takt/base/spec.h"
#include "takt/turns/held.h"
#include "takt/turns/return_curve.h"
#include "takt/turns/retention/lru.h"

namespace takt {

class NextUses;  // takt/rivals/retention/next_uses.h; known only to simulators

// Copyable handle. Copies share one immutable policy. `listed()` and `awaits()` report the optional hooks of the
// policy.
class AnyRetention {
 public:
  static constexpr std::size_t kLists = 288;  // maximum lists of a policy

  AnyRetention() : AnyRetention(Lru{}) {}

  template <RetentionPolicy P>
    requires(!std::same_as<P, AnyRetention>)
  AnyRetention(P policy)  // NOLINT: implicit, so that any policy converts
      : spec_(SpecOf(policy)), listed_(ListedRetention<P>), awaits_(AwaitedRetention<P>) {
    if constexpr (ListedRetention<P>) static_assert(P::kLists <= kLists);
    policy_ = std::make_shared<const Inside<P>>(std::move(policy));
  }

  const std::string& spec() const { return spec_; }  // text that MakeRetention accepts
  void Rename(const std::string&, std::string spec) { spec_ = std::move(spec); }
  bool listed() const { return listed_; }
  bool awaits() const { return awaits_; }

  double Value(const Held& held, TimePoint now) const { return policy_->Value(held, now); }
  std::size_t List(const Held& held) const { return policy_->List(held); }
  double AwaitedValue(const Held& held) const { return policy_->AwaitedValue(held); }

  // Sets the return curves or the next uses of a policy that uses these. The argument must outlive the policy.
  void Read(const ReturnCurves* curves) { Bind(policy_->Reads(curves)); }
  void Read(const NextUses* next_uses) { Bind(policy_->Reads(next_uses)); }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual double Value(const Held&, TimePoint) const = 0;
    virtual std::size_t List(const Held&) const = 0;
    virtual double AwaitedValue(const Held&) const = 0;
    virtual std::shared_ptr<const Base> Reads(const ReturnCurves*) const = 0;  // null: the policy does not use them
    virtual std::shared_ptr<const Base> Reads(const NextUses*) const = 0;
  };
  template <class P>
  struct Inside final : Base {
    explicit Inside(P p) : policy(std::move(p)) {}
    double Value(const Held& held, TimePoint now) const override { return policy.Value(held, now); }
    std::size_t List(const Held& held) const override {
      if constexpr (ListedRetention<P>) return policy.List(held);
      return 0;
    }
    double AwaitedValue(const Held& held) const override {
      if constexpr (AwaitedRetention<P>) return policy.AwaitedValue(held);
      return policy.Value(held, held.since);
    }
    std::shared_ptr<const Base> Reads(const ReturnCurves* curves) const override {
      if constexpr (requires(P& p) { p.curves = curves; }) {
        P bound = policy;
        bound.curves = curves;
        return std::make_shared<const Inside>(std::move(bound));
      }
      return nullptr;
    }
    std::shared_ptr<const Base> Reads(const NextUses* next_uses) const override {
      if constexpr (requires(P& p) { p.next_uses = next_uses; }) {
        P bound = policy;
        bound.next_uses = next_uses;
        return std::make_shared<const Inside>(std::move(bound));
      }
      return nullptr;
    }
    P policy;
  };

  void Bind(std::shared_ptr<const Base> bound) {
    if (bound != nullptr) policy_ = std::move(bound);
  }

  std::shared_ptr<const Base> policy_;
  std::string spec_;
  bool listed_ = false, awaits_ = false;
};

}  // namespace takt

#endif  // TAKT_TURNS_RETENTION_ANY_RETENTION_H_
