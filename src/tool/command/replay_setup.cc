#include "tool/command/replay_setup.h"

#include <algorithm>
#include <utility>

#include "takt/placement/registry.h"
#include "takt/turns/gates/registry.h"
#include "takt/turns/retention/registry.h"
#include "takt/workload/sessions.h"
#include "tool/command/scheduler_settings.h"

namespace takt::tool {

std::vector<std::string> DefaultPolicies() { return {"fcfs", "sjf", "stjf", "room_to_pass"}; }

void AddEngineSetup(Group group, ReplaySetup& to) {
  group.Add("--front-end", to.front_end_ms, "MS",
            "delay each request by MS before the engine, for HTTP and tokenising [the first profile's]", Share(1e6));
  group.Add("--front-end-token", to.front_end_token_us, "US",
            "delay each request by US more for each prompt token [the first profile's]", Share(1e6));
  group.Add("--placement", to.placement, "NAME",
            "choose an instance for each request by this policy; see 'takt policies'");
  group.Add("--max-seqs", to.max_seqs, "N", "limit the running requests to N", Whole(1, 1 << 20));
  group.Add("--adapter-slots", to.adapter_slots, "N", "keep at most N LoRA adapters loaded per instance [all]",
            Whole(1));
  group.Add("--adapter-load", to.adapter_load_ms, "MS", "delay a step by MS for each adapter that it must load first",
            Share(1e6));
  group.Add("--retention", to.retention, "NAME",
            "choose which KV of ended turns to evict first; see 'takt policies' [hold_value for sessions]");
  group.Add("--gate", to.gate, "NAME",
            "choose which requests may take KV held for others; see 'takt policies' [price for sessions]");
  group.Add("--option", to.options, "K=V",
            "set an option of the scheduler or a policy; repeat as needed: preempt=by_rank, order=prefill_first, "
            "chunk_tokens=512, threshold=50, ... (docs/reference/cli.md lists them)");
}

LoadFlags AddLoadSetup(Group group, ReplaySetup& to) {
  const Flag scale = group.Add("--rate-scale", to.rate_scale, "X", "multiply the arrival rate by X", Positive());
  const Flag closed = group.Add("--closed-loop", to.closed_loop, "N",
                                "keep N workflows in flight: start one when another ends, and ignore arrival times",
                                Whole(1, INT64_MAX));
  const Flag sessions = group.Add(
      "--session-rate", to.session_rate, "R",
      "start R sessions (workflows) per second at random times; repeat them after each has started once", Positive());
  group.Add("--horizon", to.horizon, "S",
            "with --session-rate or --closed-loop: end the run after S seconds [long enough to start "
            "each session once; 1800 for a closed loop of sessions]",
            Positive());
  group.Add("--warm-up", to.warm_up, "SHARE", "exclude the first SHARE of the horizon from all figures", Share(0.99));
  group.Add("--think-cap", to.think_cap, "S", "limit pauses between a workflow's requests to S seconds", Share(1e9));
  group.Add("--expected-gaps", to.expected_gaps, "X",
            "estimate the time until a session's next turn as X times the true time [no estimate]", Positive());
  scale.Excludes({closed, sessions});
  closed.Excludes({sessions});
  return {scale, closed, sessions};
}

absl::Status CheckLoad(const ReplaySetup& setup) {
  if (setup.session_rate > 0 || setup.closed_loop > 0) return absl::OkStatus();
  if (setup.horizon > 0)
    return absl::InvalidArgumentError("--horizon: is invalid alone; expected also --session-rate or --closed-loop");
  if (setup.think_cap)
    return absl::InvalidArgumentError("--think-cap: is invalid alone; expected also --session-rate or --closed-loop");
  return absl::OkStatus();
}

absl::StatusOr<ReplayOptions> ReplayOptionsOf(const ReplaySetup& setup, std::vector<Profile> engines,
                                              std::uint64_t seed, std::vector<std::string>& policies) {
  absl::StatusOr<AnyPlacement> placement = MakePlacement(setup.placement);
  if (!placement.ok()) return placement.status();
  ReplayOptions options;
  SetProfile(setup, engines.front(), options);
  if (engines.size() > 1) options.engines = std::move(engines);
  options.seed = seed;
  options.kv_tokens = setup.kv_tokens;
  options.host_kv_tokens = setup.host_kv_tokens;
  options.instances = setup.instances;
  options.cluster.prefill_engines = setup.prefill_instances;
  options.cluster.kv_link_gb_s = setup.kv_link_gb_s;
  options.cluster.deflect_tokens = setup.deflect_tokens;
  options.placement = *std::move(placement);
  options.engine.limits.tokens = {setup.token_budget};
  options.engine.limits.max_seqs = setup.max_seqs;
  if (setup.adapter_slots > 0) options.engine.limits.adapters = setup.adapter_slots;
  options.engine.adapter_load = FromSeconds(setup.adapter_load_ms / 1e3);
  options.scheduler.prefix_cache = setup.prefix_cache;
  options.cluster.rate_scale = setup.rate_scale;
  options.cluster.closed_loop = setup.closed_loop;
  options.slo = {FromSeconds(setup.slo_ttft), FromSeconds(setup.slo_tpot)};

  std::vector<std::string> of_policies;
  for (const std::string& option : setup.options) {
    const absl::StatusOr<bool> known = ApplySetting(option, options);
    if (!known.ok()) return known.status();
    if (!*known) of_policies.push_back(option);
  }
  if (absl::Status given = GiveOptions(policies, of_policies); !given.ok()) return given;
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  return options;
}

void SetProfile(const ReplaySetup& setup, Profile profile, ReplayOptions& options) {
  const auto own = [](double wished, double given) { return wished < 0 ? given : wished; };
  options.cluster.front_end = FromSeconds(own(setup.front_end_ms, profile.front_end_ms) / 1e3);
  options.cluster.front_end_token = FromSeconds(own(setup.front_end_token_us, profile.front_end_token_us) / 1e6);
  options.profile = std::move(profile);
}

absl::Status DrawLoad(ReplaySetup& setup, std::uint64_t seed, Workload& workload, ReplayOptions& options) {
  constexpr double kClosedLoopHorizon = 1800;
  const bool has_sessions = !workload.prefix_runs.empty();
  // Uses takt's own retention and gate if the workload has sessions and neither option is given.
  if (has_sessions && setup.retention.empty() && setup.gate.empty()) {
    setup.retention = "hold_value";
    setup.gate = "price";
    setup.default_retention = true;
  }
  if (setup.retention.empty() && !setup.gate.empty()) setup.retention = "lru";
  if (!setup.retention.empty() && setup.gate.empty()) setup.gate = "none";
  if (!setup.retention.empty()) {
    options.scheduler.prefix_cache = true;
    absl::StatusOr<RetentionFactory> retention = MakeRetentionFactory(setup.retention);
    if (!retention.ok()) return retention.status();
    absl::StatusOr<GateFactory> gate = MakeGateFactory(setup.gate);
    if (!gate.ok()) return gate.status();
    options.retention = *std::move(retention);
    options.gate = *std::move(gate);
  }
  options.scheduler.prefix_cache |= has_sessions;
  options.cluster.tell_gaps = setup.expected_gaps;
  setup.prefix_cache = options.scheduler.prefix_cache;
  const bool closed = setup.closed_loop > 0 && (has_sessions || setup.horizon > 0 || setup.think_cap);
  if (!(setup.session_rate > 0) && !closed) return absl::OkStatus();
  if (!(setup.horizon > 0)) {
    const double sessions = static_cast<double>(workload.workflows.size());
    setup.horizon = closed ? kClosedLoopHorizon : sessions / setup.session_rate;
  }
  constexpr double kMost = 1e9;  // s; the limit of workloads
  SessionLoad load{.rate = setup.session_rate,
                   .closed_loop = setup.closed_loop,
                   .horizon = FromSeconds(std::min(setup.horizon, kMost)),
                   .seed = seed};
  if (setup.think_cap) load.think_cap = FromSeconds(std::min(*setup.think_cap, kMost));
  absl::StatusOr<Workload> drawn = DrawSessions(workload, load);
  if (!drawn.ok()) return drawn.status();
  workload = *std::move(drawn);
  options.cluster.horizon = load.horizon;
  options.warm_up = FromSeconds(ToSeconds(load.horizon) * setup.warm_up);
  return absl::OkStatus();
}

}  // namespace takt::tool
