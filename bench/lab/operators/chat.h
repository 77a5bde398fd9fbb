// Chat next to coding agents that overload the engine.
#ifndef TAKT_BENCH_LAB_OPERATORS_CHAT_H_
#define TAKT_BENCH_LAB_OPERATORS_CHAT_H_

#include "absl/status/status.h"
#include "lab/scenario.h"
#include "lab/study.h"

namespace takt::tool {

// Runs the part, and adds its table, rows and claims. Without the recorded sessions or the chat trace, adds a claim
// that was not measured.
absl::Status AddChatPart(const StudySettings& settings, SeedRange seeds, ProgressBar& bar, ScenarioReport& report);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_OPERATORS_CHAT_H_
