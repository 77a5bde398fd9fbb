// The world of one seed: a scheduler's options, its policy, and the faults of its host.
#ifndef TAKT_TESTS_FIRE_SETUP_H_
#define TAKT_TESTS_FIRE_SETUP_H_

#include <cstdint>
#include <string>

#include "dice.h"
#include "ids.h"
#include "takt/pause/any_pause.h"
#include "takt/policy/any_policy.h"
#include "takt/scheduler_options.h"

namespace takt::fire {

struct Setup {
  SchedulerOptions options;
  std::uint64_t policy = 0;  // bits for PolicyOf
  std::uint64_t pause = 0;   // bits for PauseOf
  int depth = 0;             // maximum steps in flight beyond the oldest

  // Work.
  Ids ids;
  std::int64_t tick = 1;  // unit of all times except clock jumps, nanoseconds
  int population = 0;  // requests that the host keeps alive
  std::int32_t most_prompt = 0, most_output = 0, most_sequences = 1, most_drafts = 0, adapters = 0;
  double share_odd = 0;      // share that is neither chunkable nor preemptible
  double share_whole = 0;    // share of all other requests that is not chunkable
  double used_again = 0.02;  // share of arrivals with an id that is or was alive
  bool caps_end = false;     // results omit the end of requests that reach their output cap
  double share_expiring = 0, share_tools = 0;
  double share_paced = 0;  // share of requests with a pace of their own
  static constexpr int kMostFamilies = 4;
  int families = 0;          // families of shared prefixes; 0: none
  std::int32_t chunk_tokens = 0;
  bool unlike_chunks = false;  // chunks of one to three blocks, or of a fraction of a block

  // Limits of an ordinary step.
  StepLimits limits;
  double odd_limits = 0;  // share of steps with other limits

  // Faults.
  double cancels = 0, blocks = 0, absurd = 0, clock = 0;
  double bad_results = 0;  // share of commits with any fault
  double out_of_order = 0, failed_moves = 0, slow_moves = 0, deferred_frees = 0, refusals = 0;
  double policy_changes = 0, option_changes = 0;
  double failing_memory = 0;  // share of actions in which an allocation fails
  double relocations = 0;  // share of actions that move the scheduler to another address
  // Plans in which the oracle refuses everything: how often, and how many in a row.
  double refuses_all = 0, refusal_spells = 0;
  std::int32_t refuses_each = 0, spell_plans = 0;
  double resizes = 0;  // share of plans before which the oracle's total changes
  bool drains = false;
  double facts = 0;  // share of actions in which KV arrives, is lost or is pinned, or rows are not ready
  // Workflows whose turns end, with a retention policy and a gate. Only the ledger's prefix cache has them. Their
  // random numbers are drawn apart from all others.
  bool agents = false;
  std::uint64_t retention = 0;  // choice of the retention policy
  // Half of the requests have names without limit, as a client may invent them. The names are of branches, workflows,
  // tenants, or workflows without a tenant.
  enum class Flood : std::uint8_t { kNone, kBranches, kWorkflows, kTenants, kNameless };
  Flood flood = Flood::kNone;
  std::uint32_t most_holdings = 65536;
  static inline bool with_facts = true;  // false: no world has facts or agents

  // Policies and pause policies come from a registry by text, as hosts in other languages name them.
  bool by_name = false;

  static Setup OfSeed(std::uint64_t seed);

  // The options after a random change.
  SchedulerOptions ChangedOptions(std::uint64_t bits) const;
  AnyPolicy PolicyOf(std::uint64_t bits) const;
  AnyPause PauseOf(std::uint64_t bits) const;
  // Texts of the registries.
  static std::string RetentionOf(std::uint64_t bits);
  static std::string GateOf(std::uint64_t bits);
};

// Any policy, with or without aging, with any options.
AnyPolicy PolicyOf(std::uint64_t bits);
// Any pause policy, or one that decides at random and returns invalid answers.
AnyPause PauseOf(std::uint64_t bits);

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_SETUP_H_
