#include "lab/operators/roles.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "fmt/format.h"
#include "lab/claim.h"
#include "lab/figure.h"
#include "lab/operators/inputs.h"
#include "takt/placement/registry.h"
#include "takt/sim/profiles.h"
#include "takt/sim/replay.h"
#include "takt/workload/generate.h"

namespace takt::tool {
namespace {

// Two engines compute prompts, and two decode. Prompts of at most kLocalTokens are computed where they decode.
constexpr std::int32_t kPrefillEngines = 2, kDecodeEngines = 2, kLocalTokens = 512;
constexpr double kRolesRates[] = {6, 12, 20};  // requests per second; 20 overload the prefill engines

struct RolesSetup {
  double rate = 0;
  bool roles = false;  // one router with roles; false: two routers
  bool if_sooner = false;  // the router's local_if_sooner

  friend bool operator==(const RolesSetup&, const RolesSetup&) = default;
};
struct RolesFigures {
  double first_mean = 0, first_p95 = 0, latency_mean = 0, latency_p95 = 0, apart = 0;
};
constexpr Figure<RolesFigures> kRolesFigures[] = {
    {"ttft_mean_s", &RolesFigures::first_mean, "", "", "first token", "mean [s]"},
    {"ttft_p95_s", &RolesFigures::first_p95, "", "", "first token", "p95 [s]"},
    {"latency_mean_s", &RolesFigures::latency_mean, "", "", "request", "mean [s]"},
    {"latency_p95_s", &RolesFigures::latency_p95, "", "", "request", "p95 [s]"},
    {"apart_share", &RolesFigures::apart, "", "", "prefill", "apart"}};

absl::StatusOr<std::optional<RolesFigures>> RunRoles(const Profile& profile, double minutes, const RolesSetup& setup,
                                                     std::uint64_t seed, const RunProgress& progress) {
  const absl::StatusOr<Workload> workload = GenerateWorkload(
      fmt::format("gen:poisson,requests={},rate={:g},prompt=lognormal:1150:1.1,output=lognormal:210:0.8,seed={}",
                  static_cast<std::int64_t>(60 * minutes * setup.rate), setup.rate, seed));
  if (!workload.ok()) return workload.status();
  ReplayOptions options;
  options.profile = profile;
  options.instances = kPrefillEngines + kDecodeEngines;
  options.seed = seed;
  options.engine.limits = {.tokens = {8192}, .max_seqs = 256};
  options.placement = *MakePlacement("least_outstanding_tokens");
  options.cluster.prefill_engines = kPrefillEngines;
  options.cluster.deflect_tokens = kLocalTokens;
  options.cluster.roles = setup.roles;
  options.cluster.local_if_sooner = setup.if_sooner;
  options.cluster.progress = progress;
  const absl::StatusOr<ReplayResult> run = Replay(*workload, options);
  if (!run.ok()) return run.status();
  if (run->stopped) return std::nullopt;
  std::size_t apart = 0;
  for (const RequestRecord& r : run->requests) apart += r.instance < kPrefillEngines ? 1 : 0;
  const Metrics& m = run->metrics;
  return RolesFigures{m.ttft.mean, m.ttft.p95, m.e2e.mean, m.e2e.p95,
                      static_cast<double>(apart) / static_cast<double>(run->requests.size())};
}

}  // namespace

absl::Status AddRolesPart(const StudySettings& settings, SeedRange seeds, ProgressBar& bar, ScenarioReport& report) {
  const absl::StatusOr<Profile> profile = FindProfile(kOperatorProfile);
  if (!profile.ok()) return profile.status();
  const double minutes = settings.minutes > 0 ? settings.minutes : 5;
  Study<RolesSetup, RolesFigures> study(seeds);
  for (const double rate : kRolesRates) {
    study.Add({rate, false, false});
    study.Add({rate, true, false});
    study.Add({rate, true, true});
  }
  const absl::Status ran = study.RunCells(
      settings.threads, "roles", bar, [&](const RolesSetup& setup, std::uint64_t seed, const RunProgress& progress) {
        return RunRoles(*profile, minutes, setup, seed, progress);
      });
  if (!ran.ok()) return ran;
  Table table = TableOf({{"", "system"}, {"", "requests/s", true}}, kRolesFigures);
  for (std::size_t c = 0; c < study.size(); ++c) {
    const auto& cell = study[c];
    if (!cell.complete()) continue;
    const std::string label = !cell.setup.roles      ? "two routers"
                              : cell.setup.if_sooner ? "roles, local if sooner"
                                                     : "roles";
    table.BeginRow();
    table.Text(label), table.Number(cell.setup.rate);
    FillCells(kRolesFigures, [&](double RolesFigures::* figure) { table.Number(cell.Mean(figure)); });
    ScenarioRow row = {{"part", std::string("roles")}, {"system", label}, {"rate", cell.setup.rate}};
    AddMeans(row, cell, kRolesFigures);
    report.rows.push_back(std::move(row));
  }
  report.tables.push_back({"Part roles: prefill and decode apart", std::move(table)});
  Claims claims;
  for (const double rate : kRolesRates) {
    const auto claim = [&](const char* what, double RolesFigures::* figure) {
      const std::string name = fmt::format("(g) roles: {} over that of two routers, {:g} requests/s", what, rate);
      const auto ratio = study.Ratio({rate, true, false}, {rate, false, false}, figure);
      if (!ratio) return claims.Lacking(name, {{}, 1.05}, "x");
      claims.Add(name, *ratio, {{}, 1.05}, "x", ratio->high <= 1.05, IntervalText(*ratio), ratio->high);
    };
    claim("p95 of first tokens", &RolesFigures::first_p95);
    claim("mean latency", &RolesFigures::latency_mean);
  }
  for (ScenarioClaim& claim : claims.Take()) report.claims.push_back(std::move(claim));
  return absl::OkStatus();
}

}  // namespace takt::tool
