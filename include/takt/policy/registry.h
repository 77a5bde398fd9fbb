// Policies by name.
#ifndef TAKT_POLICY_REGISTRY_H_
#define TAKT_POLICY_REGISTRY_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/registry.h"
#include "takt/model/engine_pace.h"
#include "takt/policy/any_policy.h"

namespace takt {
namespace internal {
using PolicyRegistry = Registry<AnyPolicy, const EnginePace*>;
extern template class Registry<AnyPolicy, const EnginePace*>;
PolicyRegistry& Policies();
}  // namespace internal

// Makes a policy from "NAME", "NAME(k=v,...)" or "aged(POLICY,k=v,...)", where POLICY is one of the former two.
// `options` are further "k=v", for whichever part of the spec knows k. InvalidArgument names what is unknown or out of
// bounds, and what there is instead. `pace`: how fast the engine is, for what neither says. `custom`: a policy of the
// host's own, for "custom" in the spec, also within aged; where custom(NAME) stands there, that must be its spec.
absl::StatusOr<AnyPolicy> MakePolicy(std::string_view spec, std::span<const std::string> options = {},
                                     const EnginePace* pace = nullptr, const AnyPolicy* custom = nullptr);

// Makes the policy of an engine, by how fast that is.
using PolicyFactory = std::function<AnyPolicy(const EnginePace&)>;

// One that makes what MakePolicy makes of the text. What is wrong with the text is said now; the factory cannot fail.
absl::StatusOr<PolicyFactory> MakePolicyFactory(std::string_view spec);

// A policy of the host's own, from its options in a spec and the engine's pace, which may be null.
using OwnPolicyFactory = internal::PolicyRegistry::OwnFactory;

// Adds a policy of the host's own to those that MakePolicy knows, alone and within aged, and so do replays, logs and
// the tool. InvalidArgument: the name is taken, or is invalid (lower-case letters, digits, _). Call it before any
// thread makes policies: there is no lock.
inline absl::Status RegisterPolicy(std::string name, std::string summary, OwnPolicyFactory factory) {
  return internal::Policies().Register(std::move(name), std::move(summary), std::move(factory));
}
// The same for a type with a kName, and options, if any, that it visits.
template <RankPolicy P>
  requires requires { P::kName; }
absl::Status RegisterPolicy(P plain, std::string summary) {
  return internal::Policies().Register(std::move(plain), std::move(summary));
}

// The policies that MakePolicy knows, registered ones and aged last, for people to read.
using PolicyInfo = RegistryInfo;
std::vector<PolicyInfo> PolicyInfos();

}  // namespace takt

#endif  // TAKT_POLICY_REGISTRY_H_
