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

// A retention policy of the host's own, from its options in a spec and the engine's pace, which may be null.
using OwnRetentionFactory = internal::RetentionRegistry::OwnFactory;

// Makes a retention policy from "NAME" or "NAME(k=v,...)". `pace`: the engine's, for options that the spec omits.
// InvalidArgument names what is unknown or out of bounds, and what there is instead.
inline absl::StatusOr<AnyRetention> MakeRetention(std::string_view spec, const PrefillPace* pace = nullptr) {
  return internal::Retentions().Make(spec, pace);
}

// Makes the retention policy of an engine, by its pace. Faults of the text are returned now: the factory cannot fail.
using RetentionFactory = std::function<AnyRetention(const PrefillPace&)>;
inline absl::StatusOr<RetentionFactory> MakeRetentionFactory(std::string_view spec) {
  return internal::Retentions().MakeFactory<PrefillPace>(spec);
}

// Adds a retention policy of the host's own to those that MakeRetention knows. As RegisterPolicy.
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
