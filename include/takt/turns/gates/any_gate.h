// A gate chosen at run time.
#ifndef TAKT_TURNS_GATES_ANY_GATE_H_
#define TAKT_TURNS_GATES_ANY_GATE_H_

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "takt/base/spec.h"
#include "takt/turns/gates/gate_policy.h"
#include "takt/turns/return_curve.h"

namespace takt {

// Admits every request.
struct NoGate {
  static constexpr std::string_view kName = "none";

  double LetsInAfter(const GateAsk&, const HeldOrder&) const { return 0; }
};

// Copyable handle. Copies share one immutable policy.
class AnyGate {
 public:
  AnyGate() : AnyGate(NoGate{}) {}

  template <GatePolicy G>
    requires(!std::same_as<G, AnyGate>)
  AnyGate(G gate)  // NOLINT: implicit, so that any gate converts
      : spec_(SpecOf(gate)), open_(std::same_as<G, NoGate>) {
    gate_ = std::make_shared<const Inside<G>>(std::move(gate));
  }

  const std::string& spec() const { return spec_; }  // text that MakeGate accepts
  void Rename(const std::string&, std::string spec) { spec_ = std::move(spec); }
  bool open() const { return open_; }  // true: the gate admits every request without a question

  double LetsInAfter(const GateAsk& ask, const HeldOrder& held) const { return gate_->LetsInAfter(ask, held); }
  GateDoor Door() const { return gate_->Door(); }
  double PrefillSeconds(const GateAsk& ask) const { return gate_->PrefillSeconds(ask); }
  double Update(double state, const GateSigns& signs) const { return gate_->Update(state, signs); }
  double UpdateEvery() const { return gate_->UpdateEvery(); }

  // Sets the return curves of a gate that uses curves. The curves must outlive the gate.
  void Read(const ReturnCurves* curves) {
    if (std::shared_ptr<const Base> bound = gate_->Reads(curves)) gate_ = std::move(bound);
  }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual double LetsInAfter(const GateAsk&, const HeldOrder&) const = 0;
    virtual GateDoor Door() const = 0;
    virtual double PrefillSeconds(const GateAsk&) const = 0;
    virtual double Update(double, const GateSigns&) const = 0;
    virtual double UpdateEvery() const = 0;
    virtual std::shared_ptr<const Base> Reads(const ReturnCurves*) const = 0;
  };
  template <class G>
  struct Inside final : Base {
    explicit Inside(G g) : gate(std::move(g)) {}
    double LetsInAfter(const GateAsk& ask, const HeldOrder& held) const override { return gate.LetsInAfter(ask, held); }
    GateDoor Door() const override {
      if constexpr (DoorGate<G>) return gate.Door();
      return {};
    }
    double PrefillSeconds(const GateAsk& ask) const override {
      if constexpr (DoorGate<G>) return gate.PrefillSeconds(ask);
      return 0;
    }
    double Update(double state, const GateSigns& signs) const override {
      if constexpr (UpdatingGate<G>) return gate.Update(state, signs);
      return state;
    }
    double UpdateEvery() const override {
      if constexpr (UpdatingGate<G>) return gate.UpdateEvery();
      return 0;
    }
    std::shared_ptr<const Base> Reads(const ReturnCurves* curves) const override {
      if constexpr (requires(G& g) { g.value.curves = curves; }) {
        G bound = gate;
        bound.value.curves = curves;
        return std::make_shared<const Inside>(std::move(bound));
      }
      return nullptr;
    }
    G gate;
  };

  std::shared_ptr<const Base> gate_;
  std::string spec_;
  bool open_ = true;
};

}  // namespace takt

#endif  // TAKT_TURNS_GATES_ANY_GATE_H_
