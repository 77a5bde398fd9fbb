// The policy that a host names.
#ifndef TAKT_SRC_C_POLICY_H_
#define TAKT_SRC_C_POLICY_H_

#include "absl/status/statusor.h"
#include "takt/policy/registry.h"
#include "takt/scheduler.h"

namespace takt::c {

inline absl::StatusOr<AnyPolicy> PolicyOf(const char* spec) {
  if (spec == nullptr) return DefaultPolicy<AnyPolicy>::Make();
  return MakePolicy(spec);
}

}  // namespace takt::c

#endif  // TAKT_SRC_C_POLICY_H_
