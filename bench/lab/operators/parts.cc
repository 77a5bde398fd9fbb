#include "lab/operators/parts.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "fmt/format.h"
#include "lab/claim.h"
#include "lab/operators/inputs.h"
#include "takt/numeric/summary.h"

namespace takt::tool {
namespace {

constexpr std::uint64_t kOthers = 8;  // tenants besides the one that floods
constexpr double kOthersLoad = 0.6, kWantMore = 1.2, kFloodLoad = 1.5, kQuotaShare = 0.2;
constexpr double kFullLoad = 1.2;  // of batch
constexpr double kBurstCalls = 4, kWantAll = 40;  // interactive calls per second: in bursts; more than are served
constexpr double kBatchShare = 0.2, kCeiling = 0.8;
constexpr std::int32_t kLittleKv = 400;  // blocks: 6,400 tokens
constexpr double kReserve = 0.22;  // chosen on the tuning's seeds
constexpr int kAtOnce = 60;  // calls
constexpr std::uint64_t kBatches = 8;  // of these calls, one after the other
constexpr double kCalm = 0.55, kBurstLoad = 2.5;
constexpr std::int64_t kMostWaiting = 80;

// Rates that the engine serves if all calls wait.
struct Served {
  double calls = 0, tokens = 0;  // per second
};
absl::StatusOr<Served> SaturationOf(std::vector<OperatorCall> calls, const OperatorSystem& system,
                                    const Profile& profile) {
  double tokens = 0;
  for (OperatorCall& call : calls) call.at = 0, tokens += call.prompt + call.output;
  const absl::StatusOr<OperatorRun> run = Serve(calls, kServiceClasses, system, profile.cost, 1000, 1e9);
  if (!run.ok()) return run.status();
  return Served{static_cast<double>(calls.size()) / run->seconds, tokens / run->seconds};
}

class OperatorParts {
 public:
  OperatorParts(const Profile& profile, double seconds) : profile_(profile), seconds_(seconds) {}

  absl::Status Prepare() {
    const OperatorSystem plain = StaticBudget("fcfs", kTunedPrompts, profile_).system;
    const auto tenants = SaturationOf(TenantCalls(30, 0, kOthers, 60, 1000), plain, profile_);
    if (!tenants.ok()) return tenants.status();
    const auto equal = SaturationOf(BurstsOfEqual(20, 20, 60, 1000), plain, profile_);
    if (!equal.ok()) return equal.status();
    const auto batch = SaturationOf(BurstsOverBatch(5, 1e-9, 1e-9, 60, 1000), plain, profile_);
    if (!batch.ok()) return batch.status();
    tenants_ = *tenants, equal_ = *equal, batch_ = *batch;
    quota_ = kQuotaShare * tenants_.tokens;
    const std::string metered = fmt::format("metered(fcfs,rate={:.0f},burst={:.0f})", quota_, 10 * quota_);
    systems_[0] = {
        ForTenants("fcfs", "fcfs", false, profile_), ForTenants("fair_share (VTC)", "fair_share", false, profile_),
        ForTenants("metered", metered, false, profile_), ForTenants("metered, paced", metered, true, profile_)};
    systems_[1] = systems_[0];
    const std::string bands = fmt::format("bands(bands=0;1;2:{:g})", kBatchShare);
    systems_[2] = {WithCeiling("priority", "priority", 1, profile_), WithCeiling("bands", bands, 1, profile_),
                   WithCeiling("priority, ceiling", "priority", kCeiling, profile_),
                   WithCeiling("bands, ceiling", bands, kCeiling, profile_)};
    systems_[3] = systems_[2];
    systems_[4] = {OnLittleKv("no reserve", kLittleKv, 0), WithWatermark("watermark 0.1", kLittleKv, 0.1),
                   WithWatermark("watermark 0.2", kLittleKv, 0.2), WithWatermark("watermark 0.4", kLittleKv, 0.4),
                   OnLittleKv("no eviction", kLittleKv, 1)};
    for (const double reserve : {0.1, kReserve, 0.4}) {
      systems_[4].push_back(OnLittleKv(fmt::format("reserve {:g}", reserve), kLittleKv, reserve));
    }
    systems_[5] = {WithBoundedQueue("80 may wait", kMostWaiting, profile_)};
    return absl::OkStatus();
  }

  const std::vector<NamedSystem>& Systems(OperatorPart part) const { return systems_[static_cast<std::size_t>(part)]; }
  double quota() const { return quota_; }

  absl::StatusOr<std::optional<PartFigures>> Run(const PartSetup& setup, std::uint64_t seed) const {
    const OperatorSystem& system = Systems(setup.part)[setup.system].system;
    switch (setup.part) {
      case OperatorPart::kFlood: return Tenants(system, kOthersLoad, setup.flood, seed);
      case OperatorPart::kQuota: return Tenants(system, kWantMore, setup.flood, seed);
      case OperatorPart::kBurst: return Batch(system, kFullLoad, kBurstCalls, 0, seed);
      case OperatorPart::kShare: return Batch(system, kFullLoad, kWantAll, kWantAll, seed);
      case OperatorPart::kMemory: return Memory(system, seed);
      case OperatorPart::kAnswers: return Answers(system, seed);
    }
    return std::nullopt;
  }

 private:
  absl::StatusOr<std::optional<PartFigures>> Tenants(const OperatorSystem& system, double others, bool flood,
                                                     std::uint64_t seed) const {
    const std::vector<OperatorCall> calls =
        TenantCalls(others * tenants_.calls, flood ? kFloodLoad * tenants_.calls : 0, kOthers, seconds_, seed);
    // The window begins when the flood has filled the engine.
    const double from = seconds_ / 3 + 60, to = 2 * seconds_ / 3;
    const absl::StatusOr<OperatorRun> run =
        Serve(calls, kServiceClasses, system, profile_.cost, seed, seconds_, from, to);
    if (!run.ok()) return run.status();
    std::vector<double> waits;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].tenant > kOthers || calls[i].at < from || calls[i].at >= to) continue;
      const double first = run->records[i].first_token;
      waits.push_back((first < 0 ? run->seconds : first) - calls[i].at);
    }
    PartFigures f{.first_p95 = Summary::Of(waits).p95, .idle_s = run->idle_s};
    if (flood && to > from) f.over_quota = run->tenant_tokens[kOthers + 1] / (to - from) / quota_ - 1;
    return f;
  }

  // `batch`: load of batch calls. `burst`, `calm`: rates of interactive calls [1/s].
  absl::StatusOr<std::optional<PartFigures>> Batch(const OperatorSystem& system, double batch, double burst,
                                                   double calm, std::uint64_t seed) const {
    const std::vector<OperatorCall> calls = BurstsOverBatch(batch * batch_.calls, burst, calm, seconds_, seed);
    const double from = seconds_ / 3;
    const absl::StatusOr<OperatorRun> run =
        Serve(calls, kServiceClasses, system, profile_.cost, seed, seconds_, from, seconds_);
    if (!run.ok()) return run.status();
    std::vector<double> waits;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].kind != 0 || calls[i].at < from) continue;
      const double first = run->records[i].first_token;
      waits.push_back((first < 0 ? run->seconds : first) - calls[i].at);
    }
    const double all = run->tenant_tokens[1] + run->tenant_tokens[2];
    return PartFigures{.first_p95 = Summary::Of(waits).p95,
                       .batch_share = all > 0 ? run->tenant_tokens[2] / all : 0,
                       .idle_s = run->idle_s};
  }

  // Sums over several batches of calls, so that one long output counts less.
  absl::StatusOr<std::optional<PartFigures>> Memory(const OperatorSystem& system, std::uint64_t seed) const {
    PartFigures f;
    std::vector<double> paces;
    for (std::uint64_t batch = 0; batch < kBatches; ++batch) {
      const std::vector<OperatorCall> calls = LongOutputs(kAtOnce, seed * kBatches + batch);
      const absl::StatusOr<OperatorRun> run = Serve(calls, kServiceClasses, system, profile_.cost, seed, 1e9);
      if (!run.ok()) return run.status();
      for (std::size_t i = 0; i < calls.size(); ++i) {
        const OperatorRecord& r = run->records[i];
        if (r.end >= 0 && calls[i].output > 1) paces.push_back((r.end - r.first_token) / (calls[i].output - 1));
      }
      f.recomputed += static_cast<double>(run->recomputed), f.preempted += static_cast<double>(run->preempted);
      f.seconds += run->seconds;
    }
    f.pace_p99 = Summary::Of(paces).p99;
    return f;
  }

  absl::StatusOr<std::optional<PartFigures>> Answers(const OperatorSystem& system, std::uint64_t seed) const {
    const std::vector<OperatorCall> calls =
        BurstsOfEqual(kCalm * equal_.calls, kBurstLoad * equal_.calls, seconds_, seed);
    const absl::StatusOr<OperatorRun> run = Serve(calls, kServiceClasses, system, profile_.cost, seed, 1e9);
    if (!run.ok()) return run.status();
    PartFigures f;
    double took = 0;
    for (const OperatorRecord& r : run->records) f.returns += r.returned, took += r.took;
    f.at_first_return = f.returns > 0 ? took / f.returns : 1;
    return f;
  }

  const Profile& profile_;
  double seconds_;
  double quota_ = 0;  // tokens per second
  Served tenants_, equal_, batch_;
  std::vector<NamedSystem> systems_[6];
};

constexpr Figure<PartFigures> kPartFigures[] = {
    {"first_p95_s", &PartFigures::first_p95, "", "", "", "p95 of first tokens [s]"},
    {"over_quota", &PartFigures::over_quota, "", "", "", "over its quota"},
    {"batch_share", &PartFigures::batch_share, "", "", "", "share of batch"},
    {"idle_s", &PartFigures::idle_s, "", "", "", "idle [s]"},
    {"recomputed", &PartFigures::recomputed, "", "", "", "recomputed tokens", Best::kSmallest},
    {"preempted", &PartFigures::preempted, "", "", "", "preempted", Best::kSmallest},
    {"seconds", &PartFigures::seconds, "", "", "", "time [s]", Best::kSmallest},
    {"pace_p99_s", &PartFigures::pace_p99, "", "", "", "p99 of TPOT [s]", Best::kSmallest},
    {"at_first_return", &PartFigures::at_first_return, "", "", "", "taken at first return"},
    {"returns", &PartFigures::returns, "", "", "", "returns"}};

std::vector<Figure<PartFigures>> Shown(OperatorPart part) {
  switch (part) {
    case OperatorPart::kFlood: return Only(kPartFigures, {&PartFigures::first_p95, &PartFigures::idle_s});
    case OperatorPart::kQuota: return Only(kPartFigures, {&PartFigures::over_quota, &PartFigures::idle_s});
    case OperatorPart::kBurst:
    case OperatorPart::kShare: return Only(kPartFigures, {&PartFigures::first_p95, &PartFigures::batch_share});
    case OperatorPart::kMemory:
      return Only(kPartFigures,
                  {&PartFigures::recomputed, &PartFigures::preempted, &PartFigures::seconds, &PartFigures::pace_p99});
    case OperatorPart::kAnswers: return Only(kPartFigures, {&PartFigures::at_first_return, &PartFigures::returns});
  }
  return {};
}

class PartClaims {
 public:
  PartClaims(const PartStudy& study, const OperatorParts& parts) : study_(study), parts_(parts) {}

  std::vector<ScenarioClaim> All() {
    const std::size_t flooded = Index(OperatorPart::kFlood, "metered, paced");
    AtMost(
        "(b) flood: p95 of the others' first tokens over a run without the flood",
        study_.Ratio({OperatorPart::kFlood, flooded}, {OperatorPart::kFlood, flooded, false}, &PartFigures::first_p95),
        1.1);
    const PartStudy::CellType* quota =
        study_.Find({OperatorPart::kQuota, Index(OperatorPart::kQuota, "metered, paced")});
    std::optional<Interval> off, idle;
    if (quota != nullptr) {
      off = quota->Of(&PartFigures::over_quota), idle = quota->Of(&PartFigures::idle_s);
    }
    Within("(b) flood: rate over its quota, if others want the rest", off, 0.02);
    AtMost("(b) flood: seconds without a step while requests wait", idle, 0, "s");

    const PartSetup ceiling{OperatorPart::kBurst, Index(OperatorPart::kBurst, "bands, ceiling")},
        open{OperatorPart::kBurst, Index(OperatorPart::kBurst, "bands")};
    AtMost("(c) burst into a full engine: p95 of its first tokens over that without a ceiling",
           study_.Ratio(ceiling, open, &PartFigures::first_p95), 0.5);
    const PartStudy::CellType* held = study_.Find(ceiling);
    std::optional<Interval> first_token;
    if (held != nullptr) first_token = held->Of(&PartFigures::first_p95);
    AtMost("(c) burst into a full engine: p95 of its first tokens with a ceiling", first_token, 2, "s");
    const PartStudy::CellType* low = study_.Find({OperatorPart::kShare, Index(OperatorPart::kShare, "bands, ceiling")});
    std::optional<Interval> share;
    if (low != nullptr) share = low->Of(&PartFigures::batch_share);
    AtLeast("(c) share of batch, if interactive calls want everything", share, kBatchShare - 0.02);

    const PartSetup none{OperatorPart::kMemory, Index(OperatorPart::kMemory, "no reserve")},
        ours{OperatorPart::kMemory, Index(OperatorPart::kMemory, fmt::format("reserve {:g}", kReserve))};
    AtMost("(d) memory: recomputed tokens over those without a reserve",
           study_.Ratio(ours, none, &PartFigures::recomputed), 1.0 / 3);
    AtMost("(d) memory: time over that without a reserve", study_.Ratio(ours, none, &PartFigures::seconds), 1.05);
    AtMost("(d) memory: p99 of TPOT over that without a reserve", study_.Ratio(ours, none, &PartFigures::pace_p99),
           1.0 / 3);

    const PartStudy::CellType* answers = study_.Find({OperatorPart::kAnswers, 0});
    std::optional<Interval> first;
    if (answers != nullptr) first = answers->Of(&PartFigures::at_first_return);
    AtLeast("(e) answers: share of refused clients that are taken at their first return", first, 0.9);
    return claims_.Take();
  }

 private:
  std::size_t Index(OperatorPart part, const std::string& label) const {
    const std::vector<NamedSystem>& systems = parts_.Systems(part);
    return static_cast<std::size_t>(std::ranges::find(systems, label, &NamedSystem::label) - systems.begin());
  }
  void AtMost(const std::string& name, const std::optional<Interval>& ours, double most,
              const std::string& unit = "x") {
    if (!ours) return claims_.Lacking(name, {{}, most}, unit);
    claims_.Add(name, *ours, {{}, most}, unit, ours->high <= most, IntervalText(*ours), ours->high);
  }
  void AtLeast(const std::string& name, const std::optional<Interval>& ours, double least) {
    if (!ours) return claims_.Lacking(name, {least, {}}, "");
    claims_.Add(name, *ours, {least, {}}, "", ours->low >= least, IntervalText(*ours), ours->low);
  }
  void Within(const std::string& name, const std::optional<Interval>& ours, double off) {
    if (!ours) return claims_.Lacking(name, {-off, off}, "");
    claims_.Add(name, *ours, {-off, off}, "", -off <= ours->low && ours->high <= off, IntervalText(*ours));
  }

  const PartStudy& study_;
  const OperatorParts& parts_;
  Claims claims_;
};

}  // namespace

absl::Status AddOperatorParts(const StudySettings& settings, const Profile& profile, SeedRange seeds, ProgressBar& bar,
                              ScenarioReport& report) {
  OperatorParts parts(profile, 180 * (settings.minutes > 0 ? settings.minutes : 5));
  if (absl::Status s = parts.Prepare(); !s.ok()) return s;
  PartStudy study(seeds);
  constexpr OperatorPart kAll[] = {OperatorPart::kFlood, OperatorPart::kQuota,  OperatorPart::kBurst,
                                   OperatorPart::kShare, OperatorPart::kMemory, OperatorPart::kAnswers};
  for (const OperatorPart part : kAll) {
    for (std::size_t s = 0; s < parts.Systems(part).size(); ++s) {
      study.Add({part, s});
      if (part == OperatorPart::kFlood) study.Add({part, s, false});
    }
  }
  const absl::Status run =
      study.RunCells(settings.threads, "tenants, memory, answers", bar,
                     [&](const PartSetup& setup, std::uint64_t seed,
                         const RunProgress& progress) -> absl::StatusOr<std::optional<PartFigures>> {
                       if (!progress(0)) return std::nullopt;
                       return parts.Run(setup, seed);
                     });
  if (!run.ok()) return run;
  for (const OperatorPart part : kAll) {
    Table table = TableOf({{"", "system"}}, Shown(part));
    for (std::size_t c = 0; c < study.size(); ++c) {
      const PartStudy::CellType& cell = study[c];
      if (cell.setup.part != part || !cell.complete()) continue;
      const std::string label =
          parts.Systems(part)[cell.setup.system].label + (cell.setup.flood ? "" : ", without the flood");
      table.BeginRow();
      table.Text(label);
      FillCells(Shown(part), [&](PartFigure figure) { table.Number(cell.Mean(figure)); });
      ScenarioRow row = {{"part", std::string(takt::Name(part))}, {"system", label}};
      AddMeans(row, cell, Shown(part));
      report.rows.push_back(std::move(row));
    }
    report.tables.push_back({fmt::format("Part {}", takt::Name(part)), std::move(table)});
  }
  report.conditions.push_back(
      {"Tenants", fmt::format("eight tenants at rho {:g} (quota: {:g}); a ninth floods with {:g}; its quota is {:.0f} "
                              "tokens a second, {:g} of what the engine computes",
                              kOthersLoad, kWantMore, kFloodLoad, parts.quota(), kQuotaShare)});
  report.conditions.push_back(
      {"Memory",
       fmt::format("{} batches of {} calls at once on {} blocks of 16 tokens; prompts of 300, outputs of 590 on "
                   "average; the host knows their distribution",
                   kBatches, kAtOnce, kLittleKv)});
  report.conditions.push_back(
      {"Answers", fmt::format("at most {} calls wait; bursts of 8 s a minute with rho {:g}, rho {:g} "
                              "between them",
                              kMostWaiting, kBurstLoad, kCalm)});
  std::vector<ScenarioClaim> claims = PartClaims(study, parts).All();
  report.claims.insert(report.claims.end(), claims.begin(), claims.end());
  return absl::OkStatus();
}

}  // namespace takt::tool
