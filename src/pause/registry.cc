#include "takt/pause/registry.h"

#include <string>
#include <utility>
#include <vector>

#include "takt/base/spec_parser.h"
#include "takt/pause/infercept.h"
#include "takt/pause/least_waste.h"

namespace takt {
namespace {

// visit(policy, summary) for each, at its defaults.
template <class V>
void ForEachPause(V&& visit) {
  visit(KeepAll{}, "keeps the KV cache: right where tools are quick");
  visit(DropAll{}, "drops it and computes it again (vLLM)");
  visit(SwapAll{}, "swaps it to the host's memory");
  visit(InferCept{}, "keeps or drops by least waste, and swaps what it would drop while the link has room (InferCept)");
  visit(LeastWaste{}, "keeps, drops or swaps by least waste, decided before the request runs (LAMPS)");
}

using OwnPause = internal::Own<AnyPause, const MemoryPace*>;

std::vector<OwnPause>& OwnPauses() {
  static std::vector<OwnPause> own;
  return own;
}

}  // namespace

absl::StatusOr<AnyPause> MakePause(std::string_view spec, const MemoryPace* pace) {
  return internal::MakeByName<AnyPause>(
      "pause policy", spec, OwnPauses(), [](auto&& visit) { ForEachPause(visit); },
      [pace](auto& policy) {
        if constexpr (requires { policy.costs; }) {
          if (pace != nullptr) policy.costs.pace = *pace;
        }
      },
      pace);
}

absl::StatusOr<PauseFactory> MakePauseFactory(std::string_view spec) {
  if (const absl::StatusOr<AnyPause> pause = MakePause(spec); !pause.ok()) return pause.status();
  return [text = std::string(spec)](const MemoryPace& pace) { return *MakePause(text, &pace); };
}

std::vector<PauseInfo> PauseInfos() {
  std::vector<PauseInfo> infos;
  ForEachPause(
      [&](const auto& pause, std::string_view summary) { infos.push_back({NameOf(pause), std::string(summary)}); });
  for (const OwnPause& own : OwnPauses()) infos.push_back({own.name, own.summary});
  return infos;
}

absl::Status RegisterPause(std::string name, std::string summary, OwnPauseFactory factory) {
  std::vector<std::string> known;
  for (const PauseInfo& info : PauseInfos()) known.push_back(info.name);
  return internal::AddOwn("pause policy", OwnPauses(), {std::move(name), std::move(summary), std::move(factory)},
                          known);
}

}  // namespace takt
