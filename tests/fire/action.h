// Actions of a random host, as values. A seed and a list of actions always replay to the same run.
#ifndef TAKT_TESTS_FIRE_ACTION_H_
#define TAKT_TESTS_FIRE_ACTION_H_

#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace takt::fire {

enum class Do : std::uint8_t {
  kArrive,
  kRevise,
  kBlock,
  kUnblock,
  kCallTool,
  kReturnTool,
  kCancel,
  kFinishMove,
  kFreeKv,
  kChangePolicy,
  kDrain,
  kPlan,
  kCommit,
  kRelocate,
  kNotReady,
  kKvArrive,
  kKvLose,
  kPinKv,
  kEndTurn,
  kRetain,
  // Actions of a host with a router and several instances.
  kPlace,
  kUp,
  kDown,
  kDie,
  kPost,
  kHear,
  kReport,
  kChangeOptions,
  kReportKv,
};
inline constexpr std::array<std::string_view, 29> kVerbs = {
    "arrive",  "revise",        "block",    "unblock",     "call_tool", "return_tool", "cancel",    "finish_move",
    "free_kv", "change_policy", "drain",    "plan",        "commit",    "relocate",    "not_ready", "kv_arrive",
    "kv_lose", "pin_kv",        "end_turn", "retain",      "place",     "up",          "down",      "die",
    "post",    "hear",          "report",   "set_options", "report_kv"};

// `name`: a request, a step or a move. `bits`: all randomness of the action. `dt`: nanoseconds that pass before it.
// `at`: the instance; 0: the router, or the only instance.
struct Action {
  Do what = Do::kPlan;
  std::uint64_t name = 0;
  std::uint64_t bits = 0;
  std::int64_t dt = 0;
  std::uint32_t at = 0;
};

inline std::string Text(const Action& a) {
  std::array<char, 128> line;
  const int n = std::snprintf(line.data(), line.size(), "%-13s %" PRIu64 " bits=%" PRIx64 " dt=%" PRId64,
                              kVerbs[static_cast<std::size_t>(a.what)].data(), a.name, a.bits, a.dt);
  const auto written = static_cast<std::size_t>(n);
  if (a.at > 0) std::snprintf(line.data() + written, line.size() - written, " at=%" PRIu32, a.at);
  return line.data();
}

// Returns the action that Text() turns into this text. Text after the numbers is a comment.
inline std::optional<Action> ParseAction(const std::string& line) {
  std::array<char, 16> verb{};
  Action a;
  if (std::sscanf(line.c_str(), "%15s %" SCNu64 " bits=%" SCNx64 " dt=%" SCNd64 " at=%" SCNu32, verb.data(), &a.name,
                  &a.bits, &a.dt, &a.at) < 4) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < kVerbs.size(); ++i) {
    if (kVerbs[i] != verb.data()) continue;
    a.what = static_cast<Do>(i);
    return a;
  }
  return std::nullopt;
}

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_ACTION_H_
