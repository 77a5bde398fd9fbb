// Retention policies by name.
#ifndef TAKT_TURNS_RETENTION_REGISTRY_H_
#define TAKT_TURNS_RETENTION_REGISTRY_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/base/spec_parser.h"
#include "takt/model/prefill_pace.h"
#include "takt/turns/retention/any_retention.h"

namespace takt {

// Makes a retention policy from "NAME" or "NAME(k=v,...)". `pace`: how fast the engine is, for what the spec does not
// say. InvalidArgument names what is unknown or out of bounds, and what there is instead.
absl::StatusOr<AnyRetention> MakeRetention(std::string_view spec, const PrefillPace* pace = nullptr);

// Makes the retention policy of an engine, by how fast that is.
using RetentionFactory = std::function<AnyRetention(const PrefillPace&)>;

// One that makes what MakeRetention makes of the text. What is wrong with the text is said now.
absl::StatusOr<RetentionFactory> MakeRetentionFactory(std::string_view spec);

// One of the host's own, by its options in a spec and the engine's pace, which may be null.
using OwnRetentionFactory =
    std::function<absl::StatusOr<AnyRetention>(std::span<const KeyValue> options, const PrefillPace* pace)>;

// From here on MakeRetention knows the name. As RegisterPolicy.
absl::Status RegisterRetention(std::string name, std::string summary, OwnRetentionFactory factory);

// What can be made, for people to read.
struct RetentionInfo {
  std::string name, summary;
};
std::vector<RetentionInfo> RetentionInfos();

}  // namespace takt

#endif  // TAKT_TURNS_RETENTION_REGISTRY_H_
