// The world of one seed: a scheduler's options, its policy, and how rough its host is.
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
  std::uint64_t pause = 0;   // and for PauseOf
  int depth = 0;             // further steps in flight beyond the oldest

  // Work.
  Ids ids;
  std::int64_t tick = 1;  // nanoseconds: of all times, but for clocks that jump
  int population = 0;  // requests that the host keeps alive
  std::int32_t most_prompt = 0, most_output = 0, most_sequences = 1, most_drafts = 0, adapters = 0;
  double share_odd = 0;      // non-chunkable, non-preemptible
  double share_whole = 0;    // of the others: non-chunkable
  double used_again = 0.02;  // ids that live, or lived
  bool caps_end = false;     // no result says that a request has ended where its cap on output does
  double share_expiring = 0, share_tools = 0;
  static constexpr int kMostFamilies = 4;
  int families = 0;          // of shared prefixes; 0: none
  std::int32_t chunk_tokens = 0;
  bool unlike_chunks = false;  // of one to three blocks, or of no whole number of them

  // Limits of an ordinary step.
  StepLimits limits;
  double odd_limits = 0;  // share of steps with other ones

  // Faults.
  double cancels = 0, blocks = 0, absurd = 0, clock = 0;
  double bad_results = 0;  // share of commits with anything wrong
  double out_of_order = 0, failed_moves = 0, slow_moves = 0, deferred_frees = 0, refusals = 0;
  double policy_changes = 0;
  double failing_memory = 0;  // of actions: one of their next allocations fails
  double relocations = 0;  // the scheduler is moved to another address
  // Plans whose oracle refuses all: at random, each so many, and so many in a row.
  double refuses_all = 0, refusal_spells = 0;
  std::int32_t refuses_each = 0, spell_plans = 0;
  double resizes = 0;  // the oracle's total changes before a plan
  bool drains = false;
  double facts = 0;  // KV that arrives, is lost or is pinned, rows that are not ready
  // Workflows whose turns end, with a retention and a gate: the ledger's prefix cache alone. Drawn apart from all else.
  bool agents = false;
  std::uint64_t retention = 0;  // which ones
  // Half of the requests bear names without end, as a client invents them: of branches, of workflows, of tenants, or of
  // workflows without a tenant.
  enum class Flood : std::uint8_t { kNone, kBranches, kWorkflows, kTenants, kNameless };
  Flood flood = Flood::kNone;
  std::uint32_t most_holdings = 65536;
  static inline bool with_facts = true;  // false: in no world, nor agents

  // Policies and pauses are those that a registry makes of a text, as hosts in other languages name them.
  bool by_name = false;

  static Setup OfSeed(std::uint64_t seed);

  AnyPolicy PolicyOf(std::uint64_t bits) const;
  AnyPause PauseOf(std::uint64_t bits) const;
  // Texts of the registries.
  static std::string RetentionOf(std::uint64_t bits);
  static std::string GateOf(std::uint64_t bits);
};

// Any of the policies, aged or not, with any options.
AnyPolicy PolicyOf(std::uint64_t bits);
// Any of the pause policies, or one that decides at random and says what no policy should.
AnyPause PauseOf(std::uint64_t bits);

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_SETUP_H_
