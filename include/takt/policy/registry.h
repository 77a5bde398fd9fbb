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

// Makes a policy from "NAME", "NAME(k=v,...)" or "aged(POLICY,k=v,...)", where POLICY has one of the first two forms.
// `options` are further "k=v" for the part of the spec that has option k. `pace` supplies defaults for speeds that are
// not set. `custom` is the host's own policy, used for "custom" in the spec, also within aged. For custom(NAME), its
// spec must be NAME. InvalidArgument names the unknown or invalid part and the valid choices.
absl::StatusOr<AnyPolicy> MakePolicy(std::string_view spec, std::span<const std::string> options = {},
                                     const EnginePace* pace = nullptr, const AnyPolicy* custom = nullptr);

// Makes the policy of an engine from the engine's pace.
using PolicyFactory = std::function<AnyPolicy(const EnginePace&)>;

// Returns a factory that calls MakePolicy(spec). InvalidArgument if the spec is invalid; the factory itself never
// fails.
absl::StatusOr<PolicyFactory> MakePolicyFactory(std::string_view spec);

// Makes the host's own policy from its options in a spec and the engine's pace, which may be null.
using OwnPolicyFactory = internal::PolicyRegistry::OwnFactory;

// Registers the host's own policy for MakePolicy, also within aged, and so for replays, logs and the command line.
// InvalidArgument: the name is taken or invalid (lower-case letters, digits, _). Call this before any thread makes
// policies: there is no lock.
inline absl::Status RegisterPolicy(std::string name, std::string summary, OwnPolicyFactory factory) {
  return internal::Policies().Register(std::move(name), std::move(summary), std::move(factory));
}
// Registers a type with a kName and, if it has options, VisitOptions.
template <RankPolicy P>
  requires requires { P::kName; }
absl::Status RegisterPolicy(P plain, std::string summary) {
  return internal::Policies().Register(std::move(plain), std::move(summary));
}

// Returns the policies that MakePolicy knows, for people to read. Registered policies, metered and aged are last.
using PolicyInfo = RegistryInfo;
std::vector<PolicyInfo> PolicyInfos();

}  // namespace takt

#endif  // TAKT_POLICY_REGISTRY_H_
