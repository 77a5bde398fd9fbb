// A pace: prompts get what the targets of decoding requests leave. The engine is a cost model with noise.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/model/cost_model.h"
#include "takt/policy/registry.h"
#include "takt/scheduler.h"
#include "takt/sim/profiles.h"

namespace takt {
namespace {

SchedulerOptions WithPace(double pace, std::int32_t least = 64) {
  SchedulerOptions options{.kv_blocks = {1 << 20}};
  options.token_pace = pace, options.least_prefill = {least};
  return options;
}

struct Engine {
  explicit Engine(const SchedulerOptions& options, const std::string& profile = "aic/llama-3.1-8b/h100/bf16/tp1")
      : scheduler(*Scheduler::Create(options, *MakePolicy("fcfs"))), cost(FindProfile(profile)->cost) {}

  void Arrive(std::uint64_t id, std::int32_t prompt, std::int32_t output, Duration pace = {}, bool chunkable = true) {
    left[id] = output;
    Request r{.id = {id}, .prompt_tokens = {prompt}};
    r.token_pace = pace, r.chunkable = chunkable;
    scheduler.On(Arrived{r}, now);
  }

  // Runs one step. Returns its time [s].
  double Step() {
    const StepPlan& plan = scheduler.Plan(now, limits);
    StepLoad load;
    std::vector<RowResult> rows;
    decodes = prompts = 0;
    for (const PlanEntry& e : plan.run) {
      const std::uint64_t id = e.request.value;
      if (e.prefill()) {
        load.AddPrefill(e.tokens, e.position, e.samples());
        prompts += e.tokens, prefilled[id] += e.tokens;
      } else {
        ++load.decodes, ++load.samples, load.decode_context += e.position;
        ++decodes;
      }
      RowResult row{.request = e.request, .lane = e.lane, .tokens = static_cast<std::uint16_t>(e.samples() ? 1 : 0)};
      if (e.samples() && --left[id] <= 0) row.flags = RowResult::kFinished;
      rows.push_back(row);
    }
    const double took = ToSeconds(cost.StepTime(load)) * slow * (1 + spread * (2 * noise.Uniform() - 1));
    now = After(now, FromSeconds(std::max(took, 1e-4)));
    scheduler.Commit({.step = plan.id, .rows = rows}, now);
    return took;
  }

  Scheduler scheduler;
  CostModel cost;
  StepLimits limits{.tokens = {4096}, .max_seqs = 128};
  TimePoint now{};
  Random noise{1};
  double spread = 0, slow = 1;
  std::int64_t decodes = 0, prompts = 0;  // tokens of the last step
  std::map<std::uint64_t, std::int32_t> left, prefilled;
};

// A request with a prompt of 3,000 tokens arrives every few steps, next to rows that decode. Returns the shares of
// steps with decodes that are late, and the mean prompt tokens of a step, after a time to learn.
struct Kept {
  double late = 0, prompts = 0;
  std::int64_t steps = 0;
};
Kept Serve(Engine& engine, double pace, int steps, int learn = 300) {
  for (std::uint64_t id = 1; id <= 32; ++id) engine.Arrive(id, 500, 1 << 20);
  Kept kept;
  std::uint64_t next = 1000;
  for (int i = 0; i < steps; ++i) {
    if (i % 5 == 0) engine.Arrive(next++, 3000, 20);
    const double took = engine.Step();
    if (i < learn || engine.decodes == 0) continue;
    ++kept.steps;
    kept.late += took > pace ? 1 : 0;
    kept.prompts += static_cast<double>(engine.prompts);
  }
  kept.late /= static_cast<double>(kept.steps), kept.prompts /= static_cast<double>(kept.steps);
  return kept;
}

TEST_CASE("decodes keep their pace while prompts queue, on engines of unlike speed") {
  struct Case {
    const char* profile;
    double pace, slow;
  };
  const Case c =
      GENERATE(Case{"aic/llama-3.1-8b/h100/bf16/tp1", 0.025, 1}, Case{"aic/llama-3.1-8b/h100/bf16/tp1", 0.05, 3},
               Case{"aic/llama-3.1-70b/h100/fp8/tp8", 0.05, 1}, Case{"aic/llama-3.1-8b/h100/bf16/tp1", 0.01, 0.5});
  CAPTURE(c.profile, c.pace, c.slow);
  Engine engine(WithPace(c.pace), c.profile);
  engine.spread = 0.05, engine.slow = c.slow;
  const Kept kept = Serve(engine, c.pace, 4000);
  CHECK(kept.late <= 0.02);
  CHECK(kept.prompts > 64);  // more than the least
  CHECK(engine.scheduler.stats().steps_paced > 3000);

  // Without a pace, prompts fill the steps.
  Engine off(WithPace(0), c.profile);
  off.spread = 0.05, off.slow = c.slow;
  const Kept broken = Serve(off, c.pace, 1000);
  CHECK(broken.late > 0.15);  // one step in five has a whole prompt
  CHECK(off.scheduler.stats().steps_paced == 0);
  CHECK(off.scheduler.paced_prefill() == Tokens::Max());
}

TEST_CASE("a pace computes about as many prompt tokens as the best static limit that keeps it") {
  for (const auto& [profile, pace] :
       {std::pair{"aic/llama-3.1-8b/h100/bf16/tp1", 0.02}, std::pair{"aic/llama-3.1-70b/h100/fp8/tp8", 0.03},
        std::pair{"aic/llama-3.1-70b/h100/fp8/tp8", 0.05}}) {
    Engine engine(WithPace(pace), profile);
    engine.spread = 0.05;
    const Kept kept = Serve(engine, pace, 4000);
    double best = 0;
    for (const std::int32_t limit : {64, 96, 128, 192, 256, 384, 512, 768}) {
      Engine fixed(WithPace(0), profile);
      fixed.spread = 0.05, fixed.limits.prefill_tokens = {limit};
      if (const Kept k = Serve(fixed, pace, 1500); k.late <= 0.01) best = std::max(best, k.prompts);
    }
    std::printf("%s, %g s: %.2f %% late, %.0f prompt tokens a step; best static limit %.0f\n", profile, pace,
                100 * kept.late, kept.prompts, best);
    CHECK(kept.late <= 0.02);
    CHECK(kept.prompts > 0.9 * best);
  }
}

TEST_CASE("prompts never stop, even if no step can keep the pace") {
  Engine engine(WithPace(1e-6, 100));
  engine.Arrive(1, 10, 1 << 20);
  engine.Step(), engine.Step();
  engine.Arrive(2, 1000, 5);
  for (int i = 1; i <= 10; ++i) {
    engine.Step();
    CHECK(engine.prefilled[2] == 100 * i);
  }
}

TEST_CASE("a request's own pace replaces the scheduler's while it runs") {
  Engine engine(WithPace(0));
  engine.Arrive(1, 100, 200, FromSeconds(0.02));
  for (int i = 0; i < 20; ++i) engine.Step();
  engine.Arrive(2, 100'000, 5);
  engine.Step();
  CHECK(engine.prompts < 2000);
  CHECK(engine.scheduler.paced_prefill().value < 2000);
  while (engine.left[1] > 0) engine.Step();
  engine.Step();
  CHECK(engine.prompts == 4096);  // nobody has a pace now
}

// The steady engine of the next two tests: requests decode, and a long prompt waits.
void Load(Engine& engine) {
  for (std::uint64_t id = 1; id <= 32; ++id) engine.Arrive(id, 500, 1 << 20);
  engine.Arrive(100, 10'000'000, 5);
  for (int i = 0; i < 400; ++i) engine.Step();
}

TEST_CASE("a target that no step can keep has no effect after its request") {
  Engine engine(WithPace(0.05));
  Load(engine);
  const std::int64_t before = engine.prompts;
  CHECK(before > 100);
  engine.Arrive(101, 100, 60, FromSeconds(1e-6));
  while (engine.left[101] > 0) engine.Step();
  for (int i = 0; i < 40; ++i) engine.Step();
  CHECK(engine.prompts > before / 2);
}

TEST_CASE("prompts that ignore the pace teach it nothing") {
  Engine engine(WithPace(0.03));
  Load(engine);
  const std::int64_t before = engine.prompts;
  CHECK(before > 100);
  for (std::uint64_t i = 0; i < 500; ++i) {
    if (i % 50 == 0) engine.Arrive(1000 + i, 4096, 5, {}, false);
    engine.Step();
  }
  for (int i = 0; i < 20; ++i) engine.Step();
  CHECK(engine.prompts > before / 2);  // the context of the long prompt grows, so each of its tokens takes longer
}

TEST_CASE("prompts that must be computed whole ignore the pace") {
  Engine engine(WithPace(1e-6, 16));
  engine.Arrive(1, 10, 1 << 20);
  engine.Step(), engine.Step();
  engine.Arrive(2, 1000, 5, {}, false);
  for (int i = 0; i < 3; ++i) engine.Step();
  CHECK(engine.prefilled[2] == 1000);
}

TEST_CASE("without decodes a step has no pace") {
  Engine engine(WithPace(1e-6));
  engine.Arrive(1, 9000, 5);
  engine.Step();
  CHECK(engine.prompts == 4096);
  engine.Step();
  CHECK(engine.prompts == 4096);
}

TEST_CASE("times that make no sense do no lasting harm") {
  Engine engine(WithPace(0.02));
  for (std::uint64_t id = 1; id <= 16; ++id) engine.Arrive(id, 100, 1 << 20);
  std::uint64_t next = 100;
  for (int i = 0; i < 400; ++i) {
    if (i % 4 == 0) engine.Arrive(next++, 2000, 10);
    if (i % 40 == 7) engine.now = After(engine.now, FromSeconds(1e4));   // the host slept
    if (i % 40 == 21) engine.now = Before(engine.now, FromSeconds(5e3));  // a clock that steps back
    if (i == 300) engine.now = kNever;
    engine.Step();
    CHECK(engine.scheduler.paced_prefill().value >= 64);
  }
}

}  // namespace
}  // namespace takt
