// A ranking policy chosen at run time.
#ifndef TAKT_POLICY_ANY_POLICY_H_
#define TAKT_POLICY_ANY_POLICY_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "takt/base/spec.h"
#include "takt/fwd.h"
#include "takt/policy/aged.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Copies share no state. AnyPolicy has every optional hook. `hooks()` returns the hooks of the inner policy; other
// hooks do nothing. A key costs one virtual call. Only a moved-from AnyPolicy is empty.
class AnyPolicy {
 public:
  AnyPolicy() : AnyPolicy(Fcfs{}) {}

  template <RankPolicy P>
    requires(!std::same_as<P, AnyPolicy>)
  AnyPolicy(P policy)  // NOLINT: implicit for every policy
      : name_(NameOf(policy)), spec_(SpecOf(policy)), hooks_(HooksOf(policy)) {
    held_ = std::make_unique<Held<P>>(std::move(policy));
  }

  // Aging is stored as options, so that plain and aged policies share compiled code. Without this constructor and
  // assignment, an Aged<AnyPolicy> would be sliced and would not age.
  template <RankPolicy P>
  AnyPolicy(const Aged<P>& policy)  // NOLINT: implicit, as above
      : AnyPolicy(policy.inner()) {
    name_ = policy.name();
    spec_ = policy.spec();
    aging_ = *policy.aging();
  }
  template <RankPolicy P>
  AnyPolicy& operator=(const Aged<P>& policy) {
    return *this = AnyPolicy(policy);
  }

  AnyPolicy(const AnyPolicy& other)
      : held_(other.held_->Clone()),
        name_(other.name_),
        spec_(other.spec_),
        hooks_(other.hooks_),
        aging_(other.aging_) {}
  AnyPolicy& operator=(const AnyPolicy& other) { return *this = AnyPolicy(other); }
  AnyPolicy(AnyPolicy&&) noexcept = default;
  AnyPolicy& operator=(AnyPolicy&&) noexcept = default;
  ~AnyPolicy() = default;

  const std::string& name() const { return name_; }  // "aged(stjf)"
  const std::string& spec() const { return spec_; }  // "aged(stjf,threshold=50)", the input of MakePolicy
  // Sets the name and the spec of a policy that was made by name.
  void Rename(std::string name, std::string spec) { name_ = std::move(name), spec_ = std::move(spec); }
  PolicyHooks hooks() const { return hooks_; }

  RankKey Key(const RequestState& r) const { return held_->Key(r); }
  RankKey KeyAt(const RequestState& r, TimePoint now) const { return held_->KeyAt(r, now); }
  std::uint64_t Group(const RequestState& r) const { return held_->Group(r); }
  RankKey GroupKey(std::uint64_t group) const { return held_->GroupKey(group); }
  std::vector<std::uint64_t>& moved_groups() { return held_->moved_groups(); }
  void GroupSized(std::uint64_t group, std::int64_t waiting, std::optional<RankKey> least) {
    held_->GroupSized(group, waiting, least);
  }
  void PlanBegins(TimePoint now) { held_->PlanBegins(now); }
  std::uint32_t First() const { return held_->First(); }
  void Joins(const RequestState& r, TimePoint now) { held_->Joins(r, now); }
  void Leaves(std::uint32_t slot, bool goes) { held_->Leaves(slot, goes); }
  void Returns(std::uint32_t slot) { held_->Returns(slot); }
  void Observe(const Event& event, TimePoint now) { held_->Observe(event, now); }
  void Observe(const Epoch& epoch, TimePoint now) { held_->Observe(epoch, now); }
  bool Scheduled(const RequestState& r, Tokens prefill, Tokens output, std::int64_t steps = 1) {
    return held_->Scheduled(r, prefill, output, steps);
  }
  void ScheduledGroup(std::uint64_t group, Tokens prefill, Tokens output) {
    held_->ScheduledGroup(group, prefill, output);
  }
  void Reserve(std::size_t slots) { held_->Reserve(slots); }
  void KeyHashes(std::uint64_t seed) { held_->KeyHashes(seed); }
  void Enters(const RequestState& r, TimePoint now) { held_->Enters(r, now); }
  void Ends(const RequestState& r, TimePoint now) { held_->Ends(r, now); }
  TimePoint ChangesAt(const RequestState& r) const { return held_->ChangesAt(r); }
  void Change(const RequestState& r, TimePoint now) { held_->Change(r, now); }
  void PlanEnds(const QueuePressure& pressure, TimePoint now) { held_->PlanEnds(pressure, now); }
  bool Admits(const RequestState& r, TimePoint now) const { return held_->Admits(r, now); }
  void Admitted(const RequestState& r, TimePoint now) { held_->Admitted(r, now); }
  KeyParts Explain(const RequestState& r) const { return held_->Explain(r); }
  RankKey VictimKey(const RequestState& r) const { return held_->VictimKey(r); }
  // Learnt state as words that are valid on any machine; empty if the policy learns nothing. LoadLearnt returns false
  // and changes nothing if the words are invalid or the policy learns nothing.
  std::vector<std::uint64_t> SaveLearnt() const { return held_->SaveLearnt(); }
  bool LoadLearnt(std::span<const std::uint64_t> words) { return held_->LoadLearnt(words); }
  const AgingOptions* aging() const { return aging_ ? &*aging_ : held_->aging(); }
  std::int64_t refresh_interval() const { return held_->refresh_interval(); }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual std::unique_ptr<Base> Clone() const = 0;
    virtual RankKey Key(const RequestState&) const = 0;
    virtual RankKey KeyAt(const RequestState&, TimePoint) const = 0;
    virtual std::uint64_t Group(const RequestState&) const = 0;
    virtual RankKey GroupKey(std::uint64_t) const = 0;
    virtual std::vector<std::uint64_t>& moved_groups() = 0;
    virtual void GroupSized(std::uint64_t, std::int64_t, std::optional<RankKey>) = 0;
    virtual void PlanBegins(TimePoint) = 0;
    virtual std::uint32_t First() const = 0;
    virtual void Joins(const RequestState&, TimePoint) = 0;
    virtual void Leaves(std::uint32_t, bool) = 0;
    virtual void Returns(std::uint32_t) = 0;
    virtual void Observe(const Event&, TimePoint) = 0;
    virtual void Observe(const Epoch&, TimePoint) = 0;
    virtual bool Scheduled(const RequestState&, Tokens, Tokens, std::int64_t) = 0;
    virtual void ScheduledGroup(std::uint64_t, Tokens, Tokens) = 0;
    virtual void Reserve(std::size_t) = 0;
    virtual void KeyHashes(std::uint64_t) = 0;
    virtual void Enters(const RequestState&, TimePoint) = 0;
    virtual void Ends(const RequestState&, TimePoint) = 0;
    virtual TimePoint ChangesAt(const RequestState&) const = 0;
    virtual void Change(const RequestState&, TimePoint) = 0;
    virtual void PlanEnds(const QueuePressure&, TimePoint) = 0;
    virtual bool Admits(const RequestState&, TimePoint) const = 0;
    virtual void Admitted(const RequestState&, TimePoint) = 0;
    virtual KeyParts Explain(const RequestState&) const = 0;
    virtual RankKey VictimKey(const RequestState&) const = 0;
    virtual std::vector<std::uint64_t> SaveLearnt() const = 0;
    virtual bool LoadLearnt(std::span<const std::uint64_t>) = 0;
    virtual const AgingOptions* aging() const = 0;
    virtual std::int64_t refresh_interval() const = 0;
  };

  template <class P>
  struct Held final : Base {
    explicit Held(P p) : policy(std::move(p)) {}

    std::unique_ptr<Base> Clone() const override { return std::make_unique<Held>(policy); }
    RankKey Key(const RequestState& r) const override { return policy.Key(r); }
    RankKey KeyAt(const RequestState& r, TimePoint now) const override {
      if constexpr (MovingPolicy<P>) return policy.KeyAt(r, now);
      return policy.Key(r);
    }
    std::uint64_t Group(const RequestState& r) const override {
      if constexpr (GroupPolicy<P>) return policy.Group(r);
      return 0;
    }
    RankKey GroupKey(std::uint64_t group) const override {
      if constexpr (GroupPolicy<P>) return policy.GroupKey(group);
      return {};
    }
    std::vector<std::uint64_t>& moved_groups() override {
      if constexpr (GroupLogPolicy<P>) return policy.moved_groups();
      return nothing;
    }
    void GroupSized(std::uint64_t group, std::int64_t waiting, std::optional<RankKey> least) override {
      if constexpr (GroupWatchPolicy<P>) policy.GroupSized(group, waiting, least);
    }
    void PlanBegins(TimePoint now) override {
      if constexpr (PlanBeginPolicy<P>) policy.PlanBegins(now);
    }
    std::uint32_t First() const override {
      if constexpr (ChoosingPolicy<P>) return policy.First();
      return UINT32_MAX;
    }
    void Joins(const RequestState& r, TimePoint now) override {
      if constexpr (ChoosingPolicy<P>) policy.Joins(r, now);
    }
    void Leaves(std::uint32_t slot, bool goes) override {
      if constexpr (ChoosingPolicy<P>) policy.Leaves(slot, goes);
    }
    void Returns(std::uint32_t slot) override {
      if constexpr (ChoosingPolicy<P>) policy.Returns(slot);
    }
    void Observe(const Event& event, TimePoint now) override {
      if constexpr (ObservingPolicy<P>) policy.Observe(event, now);
    }
    void Observe(const Epoch& epoch, TimePoint now) override {
      if constexpr (ObservingPolicy<P, Epoch>) policy.Observe(epoch, now);
    }
    bool Scheduled(const RequestState& r, Tokens prefill, Tokens output, std::int64_t steps) override {
      return ReportStep(policy, r, prefill, output, steps);
    }
    void ScheduledGroup([[maybe_unused]] std::uint64_t group, [[maybe_unused]] Tokens prefill,
                        [[maybe_unused]] Tokens output) override {
      if constexpr (GroupChargePolicy<P>) policy.ScheduledGroup(group, prefill, output);
    }
    void Reserve(std::size_t slots) override {
      if constexpr (ReservePolicy<P>) policy.Reserve(slots);
    }
    void KeyHashes(std::uint64_t seed) override {
      if constexpr (HashingPolicy<P>) policy.KeyHashes(seed);
    }
    void Enters(const RequestState& r, TimePoint now) override {
      if constexpr (EnterPolicy<P>) policy.Enters(r, now);
    }
    void Ends(const RequestState& r, TimePoint now) override {
      if constexpr (EndPolicy<P>) policy.Ends(r, now);
    }
    TimePoint ChangesAt(const RequestState& r) const override {
      if constexpr (TimedPolicy<P>) return policy.ChangesAt(r);
      return kNever;
    }
    void Change(const RequestState& r, TimePoint now) override {
      if constexpr (TimedPolicy<P>) policy.Change(r, now);
    }
    void PlanEnds(const QueuePressure& pressure, TimePoint now) override {
      if constexpr (PressurePolicy<P>) policy.PlanEnds(pressure, now);
    }
    bool Admits(const RequestState& r, TimePoint now) const override {
      if constexpr (DecliningPolicy<P>) return policy.Admits(r, now);
      return true;
    }
    void Admitted(const RequestState& r, TimePoint now) override {
      if constexpr (DecliningPolicy<P>) policy.Admitted(r, now);
    }
    KeyParts Explain(const RequestState& r) const override {
      if constexpr (ExplainPolicy<P>) return policy.Explain(r);
      return {};
    }
    RankKey VictimKey(const RequestState& r) const override {
      if constexpr (VictimPolicy<P>) return policy.VictimKey(r);
      return policy.Key(r);
    }
    std::vector<std::uint64_t> SaveLearnt() const override {
      if constexpr (LearningPolicy<P>) return policy.SaveLearnt();
      return {};
    }
    bool LoadLearnt(std::span<const std::uint64_t> words) override {
      if constexpr (LearningPolicy<P>) return policy.LoadLearnt(words);
      return false;
    }
    const AgingOptions* aging() const override { return AgingOf(policy); }
    std::int64_t refresh_interval() const override { return RefreshIntervalOf(policy); }

    P policy;
    std::vector<std::uint64_t> nothing;
  };

  std::unique_ptr<Base> held_;
  std::string name_, spec_;
  PolicyHooks hooks_;
  std::optional<AgingOptions> aging_;
};

}  // namespace takt

#endif  // TAKT_POLICY_ANY_POLICY_H_
