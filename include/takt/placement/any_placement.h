// A placement policy chosen at run time.
#ifndef TAKT_PLACEMENT_ANY_PLACEMENT_H_
#define TAKT_PLACEMENT_ANY_PLACEMENT_H_

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "takt/base/spec.h"
#include "takt/placement/least_loaded.h"
#include "takt/placement/placement_policy.h"

namespace takt {

// Copies share no state. AnyPlacement has every optional hook; a hook that the inner policy lacks does nothing. A score
// costs one virtual call. Only a moved-from AnyPlacement is empty.
class AnyPlacement {
 public:
  AnyPlacement() : AnyPlacement(LeastLoaded{}) {}

  template <PlacementPolicy P>
    requires(!std::same_as<P, AnyPlacement>)
  AnyPlacement(P policy)  // NOLINT: implicit for every policy
      : name_(NameOf(policy)),
        spec_(SpecOf(policy)),
        scores_compare_(ScoresCompare(policy)),
        goes_by_service_(GoesByService(policy)) {
    held_ = std::make_unique<Held<P>>(std::move(policy));
  }

  AnyPlacement(const AnyPlacement& other)
      : held_(other.held_->Clone()),
        name_(other.name_),
        spec_(other.spec_),
        scores_compare_(other.scores_compare_),
        goes_by_service_(other.goes_by_service_) {}
  AnyPlacement& operator=(const AnyPlacement& other) { return *this = AnyPlacement(other); }
  AnyPlacement(AnyPlacement&&) noexcept = default;
  AnyPlacement& operator=(AnyPlacement&&) noexcept = default;
  ~AnyPlacement() = default;

  const std::string& name() const { return name_; }
  const std::string& spec() const { return spec_; }  // input of MakePlacement
  bool scores_compare() const { return scores_compare_; }
  bool goes_by_service() const { return goes_by_service_; }
  void Rename(std::string name, std::string spec) { name_ = std::move(name), spec_ = std::move(spec); }

  double Score(const RequestState& r, const InstanceState& i, TimePoint now) const { return held_->Score(r, i, now); }
  void KeyHashes(std::uint64_t seed) { held_->KeyHashes(seed); }
  void Observe(const RouterEvent& event, TimePoint now) { held_->Observe(event, now); }
  void Observe(const Epoch& epoch, TimePoint now) { held_->Observe(epoch, now); }
  void Prepare(const RequestState& r, TimePoint now) { held_->Prepare(r, now); }
  std::int64_t CachedTokens(const InstanceState& i) const { return held_->CachedTokens(i); }
  void Up(const InstanceState& i, TimePoint now) { held_->Up(i, now); }
  void Placed(const RequestState& r, const InstanceState& i, TimePoint now) { held_->Placed(r, i, now); }
  void Started(const RequestState& r, const InstanceState& i, TimePoint now) { held_->Started(r, i, now); }
  void Released(const RequestState& r, const InstanceState& i, TimePoint now) { held_->Released(r, i, now); }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual std::unique_ptr<Base> Clone() const = 0;
    virtual double Score(const RequestState&, const InstanceState&, TimePoint) const = 0;
    virtual void KeyHashes(std::uint64_t) = 0;
    virtual void Observe(const RouterEvent&, TimePoint) = 0;
    virtual void Observe(const Epoch&, TimePoint) = 0;
    virtual void Prepare(const RequestState&, TimePoint) = 0;
    virtual std::int64_t CachedTokens(const InstanceState&) const = 0;
    virtual void Up(const InstanceState&, TimePoint) = 0;
    virtual void Placed(const RequestState&, const InstanceState&, TimePoint) = 0;
    virtual void Started(const RequestState&, const InstanceState&, TimePoint) = 0;
    virtual void Released(const RequestState&, const InstanceState&, TimePoint) = 0;
  };
  template <class P>
  struct Held final : Base {
    explicit Held(P p) : policy(std::move(p)) {}

    std::unique_ptr<Base> Clone() const override { return std::make_unique<Held>(policy); }
    double Score(const RequestState& r, const InstanceState& i, TimePoint now) const override {
      return policy.Score(r, i, now);
    }
    void KeyHashes(std::uint64_t seed) override {
      if constexpr (HashingPlacement<P>) policy.KeyHashes(seed);
    }
    void Observe(const RouterEvent& event, TimePoint now) override {
      if constexpr (ObservingPlacement<P>) policy.Observe(event, now);
    }
    void Observe(const Epoch& epoch, TimePoint now) override {
      if constexpr (ObservingPlacement<P, Epoch>) policy.Observe(epoch, now);
    }
    void Prepare(const RequestState& r, TimePoint now) override {
      if constexpr (PreparingPlacement<P>) policy.Prepare(r, now);
    }
    std::int64_t CachedTokens(const InstanceState& i) const override {
      if constexpr (CachingPlacement<P>) return policy.CachedTokens(i);
      return 0;
    }
    void Up(const InstanceState& i, TimePoint now) override {
      if constexpr (InstancePlacement<P>) policy.Up(i, now);
    }
    void Placed(const RequestState& r, const InstanceState& i, TimePoint now) override {
      if constexpr (AccountingPlacement<P>) policy.Placed(r, i, now);
    }
    void Started(const RequestState& r, const InstanceState& i, TimePoint now) override {
      if constexpr (StartingPlacement<P>) policy.Started(r, i, now);
    }
    void Released(const RequestState& r, const InstanceState& i, TimePoint now) override {
      if constexpr (AccountingPlacement<P>) policy.Released(r, i, now);
    }
    P policy;
  };

  std::unique_ptr<Base> held_;
  std::string name_, spec_;
  bool scores_compare_ = true, goes_by_service_ = false;
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_ANY_PLACEMENT_H_
