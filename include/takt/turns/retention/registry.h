// Retention policies by name.
#ifndef TAKT_TURNS_RETENTION_REGISTRY_H_
#define TAKT_TURNS_RETENTION_REGISTRY_H_

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/registry.h"
#include "takt/model/prefill_pace.h"
#include "takt/turns/retention/any_retention.h"

namespace takt {
namespace internal {
using RetentionRegistry = Registry<AnyRetention, const PrefillPace*>;
extern template class Registry<AnyRetention, const PrefillPace*>;
RetentionRegistry& Retentions();
}  // namespace internal

// Creates a custom retention policy from the options in a spec and the engine's pace, which may be null.
using OwnRetentionFactory = internal::RetentionRegistry::OwnFactory;

// Creates a retention policy from "NAME" or "NAME(k=v,...)". `pace` supplies options that the spec omits.
// InvalidArgument names the unknown or invalid part and the valid choices.
inline absl::StatusOr<AnyRetention> MakeRetention(std::string_view spec, const PrefillPace* pace = nullptr) {
  return internal::Retentions().Make(spec, pace);
}

// Creates the retention policy of an engine from its pace. MakeRetentionFactory reports invalid specs, so the factory
// never fails.
using RetentionFactory = std::function<AnyRetention(const PrefillPace&)>;
inline absl::StatusOr<RetentionFactory> MakeRetentionFactory(std::string_view spec) {
  return internal::Retentions().MakeFactory<PrefillPace>(spec);
}

// Registers a custom retention policy for MakeRetention, like RegisterPolicy.
inline absl::Status RegisterRetention(std::string name, std::string summary, OwnRetentionFactory factory) {
  return internal::Retentions().Register(std::move(name), std::move(summary), std::move(factory));
}
template <RetentionPolicy P>
  requires requires { P::kName; }
absl::Status RegisterRetention(P plain, std::string summary) {
  return internal::Retentions().Register(std::move(plain), std::move(summary));
}

using RetentionInfo = RegistryInfo;
inline std::vector<RetentionInfo> RetentionInfos() { return internal::Retentions().Infos(); }

}  // namespace takt

#endif  // TAKT_TURNS_RETENTION_REGISTRY_H_
