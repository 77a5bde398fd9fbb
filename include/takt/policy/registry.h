// Policies by name.
#ifndef TAKT_POLICY_REGISTRY_H_
#define TAKT_POLICY_REGISTRY_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/base/spec_parser.h"
#include "takt/model/engine_pace.h"
#include "takt/policy/any_policy.h"

namespace takt {

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

// A policy of the host's own, by its options in a spec and the engine's pace, which may be null.
using OwnPolicyFactory =
    std::function<absl::StatusOr<AnyPolicy>(std::span<const KeyValue> options, const EnginePace* pace)>;

// From here on MakePolicy knows the name, alone and within aged, and so do replays, logs and the tool. InvalidArgument:
// the name is taken, or is none (lower-case letters, digits, _). Before any thread makes policies; there is no lock.
absl::Status RegisterPolicy(std::string name, std::string summary, OwnPolicyFactory factory);

// One with a kName, and options, if any, that it visits.
template <RankPolicy P>
  requires requires { P::kName; }
absl::Status RegisterPolicy(P plain, std::string summary) {
  return RegisterPolicy(std::string(P::kName), std::move(summary),
                        [plain](std::span<const KeyValue> options, const EnginePace*) -> absl::StatusOr<AnyPolicy> {
                          P policy = plain;
                          const absl::Status status = internal::SetOwn("policy", P::kName, policy, options);
                          if (!status.ok()) return status;
                          return AnyPolicy(std::move(policy));
                        });
}

// What can be made, those of the host's own and aged last, for people to read.
struct PolicyInfo {
  struct Option {
    std::string name, default_value, unit, meaning;
  };

  std::string name, summary;
  std::vector<Option> options;
};
std::vector<PolicyInfo> PolicyInfos();

}  // namespace takt

#endif  // TAKT_POLICY_REGISTRY_H_
