#include "takt/pause/registry.h"

#include <string>

#include "spec_parser.h"
#include "takt/pause/infercept.h"
#include "takt/pause/least_waste.h"

namespace takt {
namespace {

constexpr std::string_view kKind = "pause policy";

// visit(policy, summary) for each, at its defaults.
template <class V>
void ForEachPause(V&& visit) {
  visit(KeepAll{}, "keeps the KV cache: right where tools are quick");
  visit(DropAll{}, "drops it and computes it again (vLLM)");
  visit(SwapAll{}, "swaps it to the host's memory");
  visit(InferCept{}, "keeps or drops by least waste, and swaps what it would drop while the link has room (InferCept)");
  visit(LeastWaste{}, "keeps, drops or swaps by least waste, decided before the request runs (LAMPS)");
}

}  // namespace

absl::StatusOr<AnyPause> MakePause(std::string_view spec, const MemoryPace* pace) {
  const absl::StatusOr<internal::Call> call = internal::Parse(kKind, spec);
  if (!call.ok()) return call.status();
  if (!call->policies.empty()) {
    return internal::Invalid(kKind, spec,
                             internal::Quoted(call->policies.front()) + " is no option: options are NAME=VALUE");
  }
  std::string names;
  ForEachPause([&](const auto& pause, std::string_view) { names += (names.empty() ? "" : ", ") + NameOf(pause); });
  absl::StatusOr<AnyPause> made =
      internal::Invalid(kKind, spec, "unknown pause policy " + internal::Quoted(call->name) + "; there are: " + names);
  ForEachPause([&](auto pause, std::string_view) {
    if (call->name != NameOf(pause)) return;
    if constexpr (requires { pause.costs; }) {
      if (pace != nullptr) pause.costs.pace = *pace;
    }
    const absl::Status status = internal::SetOwn(kKind, spec, pause, call->options);
    made = status.ok() ? absl::StatusOr<AnyPause>(AnyPause(std::move(pause))) : status;
  });
  return made;
}

std::vector<PauseInfo> PauseInfos() {
  std::vector<PauseInfo> infos;
  ForEachPause(
      [&](const auto& pause, std::string_view summary) { infos.push_back({NameOf(pause), std::string(summary)}); });
  return infos;
}

}  // namespace takt
