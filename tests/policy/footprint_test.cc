// The footprint of a workflow, by hand and against a recount, and the orders that use it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "scheduler/host.h"
#include "takt/base/random.h"
#include "takt/policy/boosted_footprint.h"
#include "takt/policy/footprint.h"
#include "takt/policy/books/footprint_book.h"
#include "takt/policy/registry.h"
#include "takt/policy/books/seen_lengths.h"
#include "takt/policy/books/predicted_lengths.h"
#include "takt/queue/waiting_queue.h"

namespace takt {
namespace {

constexpr StepPace kPace{.step_s = 1e-2, .prefill_s = 1e-4, .sequence_s = 1e-5, .context_s = 1e-8};

constexpr double kWithin = 0.1;  // half of a quarter of an octave: the precision of a cut

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

QueuePressure Pressure(WaitsFor head) { return {head, {.tokens = {1000}, .max_seqs = 100}, {10'000}}; }

FootprintBook Book() {
  FootprintBook book({.pace = kPace});
  book.PlanEnds(Pressure(WaitsFor::kNothing));
  return book;
}

RequestState Call(Slot slot, std::int32_t prompt, double output, std::uint64_t workflow = 0) {
  RequestState r;
  r.slot = slot;
  r.request.id = {slot + 1u};
  r.request.workflow = {workflow};
  r.request.prompt_tokens = {prompt};
  r.request.output_tokens = Estimate::Exact(output);
  r.request.arrival = r.request.workflow_arrival = TimePoint{};
  return r;
}

// The request runs to its end.
void Run(FootprintBook& book, RequestState r, double now) {
  book.Enters(r, At(now));
  r.generated = {static_cast<std::int32_t>(r.request.output_tokens.mean)};
  book.Ends(r, At(now));
}

double Part(const KeyParts& parts, std::string_view name) {
  for (std::size_t i = 0; i < parts.size; ++i) {
    if (parts.parts[i].name == name) return parts.parts[i].value;
  }
  FAIL("no part " << name);
  return 0;
}

TEST_CASE("a footprint adds this call and the work after it") {
  FootprintBook book = Book();
  RequestState r = Call(0, 100, 50);
  r.request.after = {1, 200, 30, 9000, 30};
  book.Enters(r, At(0));
  const double kv_steps = 50 * (100 + 50 / 2.0) + 9000;
  const double step = 1e-2 / 3 * (380 / 1000.0 + 80 / 100.0 + kv_steps / 10'000);
  CHECK(book.Left(r) == Approx(1e-4 * 300 + 1e-5 * 80 + 1e-8 * kv_steps + step));
  CHECK(book.Drain() == Approx(book.Left(r)));
}

TEST_CASE("computed tokens cost nothing, and lost tokens cost again") {
  FootprintBook book = Book();
  RequestState whole = Call(0, 400, 10), kept = Call(1, 400, 10), lost = Call(2, 400, 10);
  kept.computed = {399};
  lost.generated = {4};
  for (const RequestState* r : {&whole, &kept, &lost}) book.Enters(*r, At(0));
  CHECK(book.Left(kept) < 0.3 * book.Left(whole));
  // The request has four tokens less to generate, and four more to compute.
  const double saved = 1e-5 * 4 + 1e-2 / 3 * (4 / 100.0) + (10 * 405 - 6 * 407) * (1e-8 + 1e-2 / 3 / 10'000);
  CHECK(book.Left(whole) - book.Left(lost) == Approx(saved - 1e-4 * 4));
}

TEST_CASE("a tool call costs the KV that waits, or its recomputation") {
  FootprintBook book = Book();
  RequestState plain = Call(0, 100, 50), brief = Call(1, 100, 50), endless = Call(2, 100, 50);
  brief.request.next_call = {.after = {20}, .duration = FromSeconds(0.5)};
  endless.request.next_call = {.after = {20}, .duration = FromSeconds(1e6)};
  for (const RequestState* r : {&plain, &brief, &endless}) book.Enters(*r, At(0));
  CHECK(book.Left(brief) - book.Left(plain) == Approx(120 * 0.5 / 10'000 / 3));
  CHECK(book.Left(endless) - book.Left(plain) == Approx(120 * 1e-4 / 3));
}

TEST_CASE("without predicted work, a workflow costs its remaining output at learned rates") {
  FootprintBook book = Book();
  for (int i = 0; i < 100; ++i)
    Run(book, Call(0, 300, 100), i);  // three prompt tokens, 350 token-steps an output token
  RequestState r = Call(1, 300, 100);
  r.request.workflow_tokens_left = Estimate::Exact(150);
  RequestState predicted = Call(2, 300, 100);
  predicted.request.after = {1, 150, 50, 50 * 350, 50};
  book.Enters(r, At(200)), book.Enters(predicted, At(200));
  CHECK(book.Left(r) == Approx(book.Left(predicted)));
}

TEST_CASE("an unpredicted call counts as the mean of ended calls") {
  FootprintBook book = Book();
  for (int i = 0; i < 2000; ++i) Run(book, Call(0, 10, 40), i);
  RequestState r = Call(1, 10, 40), unknown = Call(2, 10, 40);
  unknown.request.output_tokens = {};
  book.Enters(r, At(0)), book.Enters(unknown, At(0));
  CHECK(book.Left(unknown) == Approx(book.Left(r)).epsilon(0.05));
}

TEST_CASE("without predictions, the book learns classes of calls") {
  FootprintBook book = Book();
  const auto call = [](Slot slot, std::uint64_t agent, std::uint64_t tenant, int prompt) {
    RequestState r = Call(slot, prompt, 0);
    r.request.output_tokens = {};
    r.request.agent = {agent}, r.request.tenant = {tenant};
    return r;
  };
  const auto end = [&](RequestState r, int output, double now) {
    book.Enters(r, At(now));
    r.generated = {output};
    book.Ends(r, At(now));
  };
  for (int i = 0; i < 200; ++i) {
    end(call(0, 1, 0, 100), 10, i), end(call(0, 2, 0, 100), 500, i);
    end(call(0, 3, 7, 100), 20, i), end(call(0, 3, 8, 100), 300, i);
    end(call(0, 4, 0, 10), 50, i), end(call(0, 4, 0, 5000), 400, i);
  }
  const auto is_like = [&](RequestState unknown, int output) {
    RequestState predicted = unknown;
    predicted.slot = 1, predicted.request.tenant = {}, predicted.request.output_tokens = Estimate::Exact(output);
    book.Enters(unknown, At(1000)), book.Enters(predicted, At(1000));
    CHECK(book.Left(unknown) == Approx(book.Left(predicted)).epsilon(0.1));
    book.Ends(unknown, At(1000)), book.Ends(predicted, At(1000));
  };
  is_like(call(0, 1, 0, 100), 10), is_like(call(0, 2, 0, 100), 500);
  is_like(call(0, 3, 7, 100), 20), is_like(call(0, 3, 8, 100), 300);
  is_like(call(0, 4, 0, 10), 50), is_like(call(0, 4, 0, 5000), 400);
}

TEST_CASE("without predictions, the book learns the rest of a workflow") {
  FootprintBook book = Book();
  const auto call = [](std::uint64_t workflow, int k) {
    RequestState r = Call(0, 100, 50, workflow);
    r.request.stage = {static_cast<std::uint64_t>(k) + 1};
    return r;
  };
  for (std::uint64_t i = 1; i <= 300; ++i) {
    for (int k = 0; k < 3; ++k) Run(book, call(i, k), 20 * static_cast<double>(i) + k);
  }
  RequestState alone = Call(1, 100, 50);
  book.Enters(alone, At(1e5));
  for (int k = 0; k < 3; ++k) {
    RequestState r = call(1000, k);
    book.Enters(r, At(1e5 + k));
    CHECK(book.Left(r) == Approx((3 - k) * book.Left(alone)).epsilon(0.1));
    r.generated = {50};
    book.Ends(r, At(1e5 + k));
  }
}

TEST_CASE("without predictions, an endless workflow has a bounded number of calls left") {
  FootprintBook book = Book();
  RequestState single = Call(1, 100, 256);  // the first guess of its output
  book.Enters(single, At(0));
  const double own = book.Left(single);
  for (int i = 0; i < 50'000; ++i) {
    RequestState r = Call(0, 100, 50, 7);
    r.request.output_tokens = {};
    book.Enters(r, At(0.1 * i));
    CHECK(book.Left(r) < 60 * own);
    r.generated = {50};
    book.Ends(r, At(0.1 * i));
  }
}

TEST_CASE("saved state loads into an equal book, and other text fails") {
  SeenLengths seen, other_seen;
  Request agent;
  agent.agent = {3}, agent.prompt_tokens = {100};
  for (int i = 0; i < 100; ++i) seen.ObserveOutput(agent, 40);
  CHECK(other_seen.Output(agent, 256) == 256);
  REQUIRE(other_seen.Load(seen.Save()));
  CHECK(other_seen.Output(agent, 256) == seen.Output(agent, 256));
  CHECK(other_seen.Output(agent, 256) == Approx(40).epsilon(0.01));
  CHECK(other_seen.Save() == seen.Save());

  PredictedLengths lengths, other_lengths;
  for (int i = 0; i < 100; ++i) lengths.Observe(2, {7}, 6);
  Random random(9);
  for (int i = 0; i < 1000; ++i) {  // both books continue alike
    if (i == 300) REQUIRE(other_lengths.Load(lengths.Save()));
    const double predicted = random.LogNormal(0, 1), taken = predicted * random.LogNormal(1, 1);
    const TenantId tenant{random.Below(1000)};  // most of them are forgotten
    lengths.Observe(predicted, tenant, taken);
    if (i < 300) continue;
    other_lengths.Observe(predicted, tenant, taken);
    for (const TenantId asked : {TenantId{}, TenantId{7}, tenant}) {
      REQUIRE(other_lengths.Truth(1, asked) == lengths.Truth(1, asked));
    }
  }
  CHECK(lengths.Truth(2, {7}) > 2.5);
  CHECK(other_lengths.Save() == lengths.Save());

  FootprintBook book = Book(), fresh = Book();
  for (int i = 0; i < 100; ++i) Run(book, Call(0, 100, 30), i);
  const std::vector<std::uint64_t> words = book.Save(), nothing = fresh.Save();
  CHECK_FALSE(fresh.Load({}));
  CHECK_FALSE(fresh.Load(std::span(words).first(100)));
  constexpr std::size_t kPredicted = 1 + SeenLengths::kWords, kOff = kPredicted + 1 + 2 * PredictedLengths::kOctaves;
  std::vector<std::size_t> places = {
      0, 5, 6, kPredicted + 1, kPredicted + 2, kOff, kOff + PredictedLengths::kOctaves - 1, words.size() - 1};
  for (std::size_t i = 0; i < SeenLengths::kWords; i += 6) {
    if (words[1 + i] == 0) continue;
    places.insert(places.end(), {1 + i, 5 + i, 6 + i});
    break;
  }
  for (const double odd : {-5.0, 1e300, std::numeric_limits<double>::infinity(), std::nan("")}) {
    for (const std::size_t at : places) {
      CAPTURE(odd, at);
      std::vector<std::uint64_t> damaged = words;
      damaged[at] = std::bit_cast<std::uint64_t>(odd);
      CHECK_FALSE(fresh.Load(damaged));
    }
  }
  // A weight without a name, a name after the last one, and a repeated name.
  constexpr std::size_t kPerTenant = 3 + 3 * PredictedLengths::kOctaves, kName = kPredicted + kPerTenant - 2;
  using Names = std::vector<std::pair<std::size_t, std::uint64_t>>;
  for (const Names& names : {Names{{1, 1}}, Names{{kPerTenant, 9}}, Names{{0, 9}, {kPerTenant, 9}}}) {
    std::vector<std::uint64_t> damaged = words;
    for (const auto& [at, word] : names) damaged[kName + at] = word;
    CHECK_FALSE(fresh.Load(damaged));
  }
  std::vector<std::uint64_t> named = words;
  named[kName] = 9, named[kName + 1] = 1, named[kName + kPerTenant] = 8;
  FootprintBook other = Book();
  CHECK(other.Load(named));
  CHECK(other.Save() == named);
  CHECK(fresh.Save() == nothing);
  REQUIRE(fresh.Load(words));
  CHECK(fresh.Save() == words);
}

TEST_CASE("a policy made by name receives saved state, aged or not") {
  AnyPolicy taught = *MakePolicy("aged(boosted_footprint)"), other = *MakePolicy("footprint");
  RequestState r = Call(0, 100, 0);
  r.request.output_tokens = {};
  for (int i = 0; i < 200; ++i) {
    taught.Enters(r, At(i));
    RequestState done = r;
    done.generated = {40};
    taught.Ends(done, At(i));
  }
  const std::vector<std::uint64_t> words = taught.SaveLearnt();
  other.Enters(r, At(0));
  const double before = other.Key(r).key;
  other = *MakePolicy("footprint");
  REQUIRE(other.LoadLearnt(words));
  other.Enters(r, At(0));
  CHECK(other.Key(r).key < 0.7 * before);
  CHECK(other.SaveLearnt() == words);
  AnyPolicy fcfs = *MakePolicy("fcfs");
  CHECK(fcfs.SaveLearnt().empty());
  CHECK_FALSE(fcfs.LoadLearnt(words));
}

TEST_CASE("a chosen stage does not overwrite another call's mean") {
  // Sums of products collide: 3 x + b y + 7 z is 2 x + 5 y, for one choice of b.
  constexpr std::uint64_t kX = 0x9e3779b97f4a7c15u, kY = 0xbf58476d1ce4e5b9u, kZ = 0x94d049bb133111ebu;
  std::uint64_t inverse = kY;
  for (int i = 0; i < 6; ++i) inverse *= 2 - kY * inverse;
  SeenLengths seen;
  Request victim, stranger;
  victim.agent = stranger.agent = {1}, victim.stage = {5};
  victim.prompt_tokens = {5}, stranger.prompt_tokens = {100};
  stranger.stage = {5 - (kX + 7 * kZ) * inverse};
  for (int i = 0; i < 100; ++i) seen.ObserveOutput(stranger, 1e6);
  CHECK(seen.Output(victim, 10) == 10);
}

TEST_CASE("endless new names evict means, and the memory stays bounded") {
  SeenLengths seen;
  Request known, stranger;
  known.prompt_tokens = stranger.prompt_tokens = {100};
  for (std::uint64_t i = 1; i <= 200'000; ++i) {
    stranger.agent = {i}, stranger.tenant = {i};
    seen.ObserveOutput(stranger, 40);
    if (i % 10 == 0) seen.ObserveOutput(known, 7);
  }
  CHECK(seen.Save().size() == SeenLengths::kWords);
  CHECK(seen.Output(known, 256) == Approx(7).epsilon(0.1));  // a frequent call is not the lightest entry
  stranger.agent = {1'000'000};
  CHECK(seen.Output(stranger, 60) == Approx(37).epsilon(0.1));  // the mean of its octave
}

TEST_CASE("calls without predictions do not change predicted ones; learn=0 learns nothing") {
  FootprintBook learnt = Book(), fresh = Book(), off({.pace = kPace, .learn = false});
  off.PlanEnds(Pressure(WaitsFor::kNothing));
  RequestState unpredicted = Call(0, 100, 50, 7);
  for (FootprintBook* book : {&learnt, &off}) {
    for (int i = 0; i < 100; ++i) {
      RequestState r = unpredicted;
      r.request.output_tokens = {};
      book->Enters(r, At(i));
      r.generated = {900};
      book->Ends(r, At(i));
    }
  }
  RequestState predicted = Call(1, 100, 50, 8);
  predicted.request.after = {1, 200, 30, 9000, 30};
  learnt.Enters(predicted, At(1000)), fresh.Enters(predicted, At(1000));
  CHECK(learnt.Left(predicted) == fresh.Left(predicted));
  CHECK(off.Save() == fresh.Save());
  CHECK(learnt.Save() != fresh.Save());
}

TEST_CASE("prices follow the resource that the head lacks and sum to 1") {
  ResourcePrices prices;
  for (int i = 0; i < 1000; ++i) prices.Learn(i % 4 == 0 ? WaitsFor::kKv : WaitsFor::kBudget, 0.005);
  CHECK(prices.kv == Approx(0.25).margin(0.02));
  CHECK(prices.tokens == Approx(0.75).margin(0.02));
  CHECK(prices.tokens + prices.sequences + prices.kv == Approx(1));
  const ResourcePrices before = prices;
  for (const WaitsFor other : {WaitsFor::kNothing, WaitsFor::kAdapter, WaitsFor::kMove}) prices.Learn(other, 0.5);
  CHECK(prices.kv == before.kv);
}

// Parallel calls that predict the rest of their workflow count once, by the newest prediction. Others count one by one.
TEST_CASE("the backlog equals the sum over live workflows after random events") {
  for (std::int64_t seed = 1; seed <= Scaled(20); ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const bool learn = seed % 4 == 0;  // then learned rests of workflows count as well, until none is alive
    FootprintBook book({.pace = kPace, .learn = learn});
    book.PlanEnds(Pressure(WaitsFor::kNothing));
    std::vector<RequestState> alive(64);
    std::vector<bool> lives(64);
    std::vector<double> own(64);
    struct Flow {
      int calls = 0;
      double predicted = 0;
    };
    std::map<std::uint64_t, Flow> flows;
    double now = 0;
    for (int event = 0; event < 3000; ++event) {
      now += random.Uniform();
      const auto slot = static_cast<Slot>(random.Below(64));
      RequestState& r = alive[slot];
      if (!lives[slot]) {
        const auto prompt = static_cast<std::int32_t>(1 + random.Below(500));
        const auto output = static_cast<double>(random.Below(200));
        r = Call(slot, prompt, output, random.Below(20));
        if (random.Chance(0.3)) r.request.output_tokens = {};
        if (random.Chance(0.5)) r.request.after = {1, 50, 20, 900, 20};
      }
      Flow& flow = flows[r.request.workflow ? r.request.workflow.value : 1000 + slot];
      if (lives[slot] && random.Chance(0.5)) {
        r.generated = {static_cast<std::int32_t>(random.Below(100))};
        book.Ends(r, At(now));
        lives[slot] = false;
        own[slot] = 0;
        if (--flow.calls == 0) flow.predicted = 0;
        book.Ends(r, At(now));  // the second call has no effect
      } else {
        if (!lives[slot]) ++flow.calls;
        lives[slot] = true;
        book.Enters(r, At(now));
        (r.request.after.known() ? flow.predicted : own[slot]) = std::min(book.Left(r), book.works().most());
      }
      double sum = 0;
      for (const auto& [id, f] : flows) sum += f.predicted;
      for (const double c : own) sum += c;
      if (learn) continue;
      REQUIRE(book.Drain() == Approx(sum).margin(1e-6));
    }
    for (Slot slot = 0; slot < 64; ++slot) {
      if (lives[slot]) book.Ends(alive[slot], At(now));
    }
    CHECK(book.Drain() == 0);
  }
}

TEST_CASE("predictions of calls and workflows are corrected by past outcomes") {
  for (const bool whole : {false, true}) {
    CAPTURE(whole);
    FootprintBook book = Book(), fresh = Book();
    const auto call = [whole](Slot slot, double output, std::int32_t prompt = 1) {
      RequestState r = Call(slot, prompt, output);
      if (whole) r.request.after = {0, 0, 0, 0, 0};
      return r;
    };
    const RequestState predicted = call(0, 50), truly = call(1, 100);
    fresh.Enters(predicted, At(0)), fresh.Enters(truly, At(0));
    CHECK(fresh.Truth(predicted) == 1);
    for (int i = 0; i < 1000; ++i) {
      RequestState r = call(0, 50);
      book.Enters(r, At(i));
      r.generated = {100};
      book.Ends(r, At(i));
    }
    book.Enters(predicted, At(2000));
    CHECK(book.Left(predicted) == Approx(fresh.Left(truly)).epsilon(0.02));
    CHECK(book.Drain() == Approx(book.Left(predicted)));
    CHECK(book.works().cut() == Approx(book.Left(predicted)).epsilon(kWithin));
    const RequestState asks = call(2, 50, 1000),
                       truly_asks = call(3, 100, 1000);  // the prompt is known and gets no correction
    book.Enters(asks, At(2000)), fresh.Enters(truly_asks, At(0));
    CHECK(book.Left(asks) == Approx(fresh.Left(truly_asks)).epsilon(0.02));
  }
}

TEST_CASE("exact predictions stay exact, even if their requests fail") {
  const auto truth = [](auto&& happens) {
    FootprintBook book = Book();
    for (int i = 0; i < 100; ++i) happens(book, 100.0 * i);
    RequestState asked = Call(63, 1, 3000);
    book.Enters(asked, At(1e5));
    const double alone = book.Truth(asked);
    asked = Call(62, 1, 3000, 62);
    asked.request.after = {0, 0, 0, 0, 0};
    book.Enters(asked, At(1e5));
    return std::pair(alone, book.Truth(asked));
  };
  const auto end = [](FootprintBook& book, RequestState r, double now) {
    r.generated = {static_cast<std::int32_t>(r.request.output_tokens.mean)};
    book.Ends(r, At(now));
  };
  constexpr std::pair kExact(1.0, 1.0);
  SECTION("a tool is called, and its answer is long") {
    for (const bool whole : {false, true}) {  // of a call, and of a workflow with predicted work
      CHECK(truth([&](FootprintBook& book, double now) {
              RequestState r = Call(0, 2000, 30, whole ? 7 : 0);
              r.request.next_call = {.after = {20}, .duration = FromSeconds(50)};
              if (whole) r.request.after = {0, 0, 0, 0, 0};
              book.Enters(r, At(now));
              r.returned = {50'000};
              end(book, r, now);
            }) == kExact);
    }
  }
  SECTION("most of its prompt is already computed at arrival") {
    CHECK(truth([&](FootprintBook& book, double now) {
            RequestState r = Call(0, 50'000, 30);
            r.computed = {49'990};
            book.Enters(r, At(now));
            end(book, r, now);
          }) == kExact);
  }
  SECTION("a later call is the first to predict the rest") {
    CHECK(truth([&](FootprintBook& book, double now) {
            RequestState first = Call(0, 20'000, 3000, 7), second = Call(1, 10, 10, 7);
            first.request.output_tokens = {};
            book.Enters(first, At(now));
            first.generated = {3000};
            book.Ends(first, At(now));
            second.request.after = {0, 0, 0, 0, 0};
            book.Enters(second, At(now));
            end(book, second, now);
          }) == kExact);
  }
  SECTION("parallel calls predict each other") {
    CHECK(truth([&](FootprintBook& book, double now) {
            RequestState a = Call(0, 100, 10, 7), b = Call(1, 1000, 3000, 7);
            a.request.after = {1, 1000, 3000, 3000 * 2500.0, 3000};
            b.request.after = {1, 100, 10, 10 * 105.0, 10};
            book.Enters(a, At(now)), book.Enters(b, At(now));
            end(book, a, now);
            b.request.after = {0, 0, 0, 0, 0};  // after its revision
            book.Enters(b, At(now));
            end(book, b, now);
          }) == kExact);
  }
  SECTION("the workflow pauses until it counts as ended") {
    CHECK(truth([&](FootprintBook& book, double now) {
            RequestState r = Call(0, 10, 10, 100 + static_cast<std::uint64_t>(now));
            r.request.after = {9, 9'000, 9'000, 9'000 * 5'000.0, 9'000};
            book.Enters(r, At(now));  // this closes the workflow before
            end(book, r, now);
          }) == kExact);
  }
  SECTION("the host caps its output and predicts the rest of the workflow") {
    CHECK(truth([&](FootprintBook& book, double now) {
            const std::uint64_t id = 100 + static_cast<std::uint64_t>(now);  // the next one closes the one before
            RequestState first = Call(0, 10, 1000, id), second = Call(1, 10, 1000, id);
            first.request.max_output_tokens = second.request.max_output_tokens = {100};
            first.request.workflow_tokens_left = Estimate::Exact(200);
            second.request.workflow_tokens_left = Estimate::Exact(100);
            for (RequestState r : {first, second}) {
              book.Enters(r, At(now));
              r.generated = {100};
              book.Ends(r, At(now));
            }
          }) == kExact);
  }
  SECTION("a part of the prediction is takt's own guess") {
    CHECK(truth([&](FootprintBook& book, double now) {
            RequestState r = Call(0, 10, 0, 7);
            r.request.output_tokens = {};
            r.request.after = {0, 0, 0, 0, 0};
            book.Enters(r, At(now));
            r.generated = {50'000};
            book.Ends(r, At(now));
          }) == kExact);
  }
  SECTION("the scarce resource changes") {
    CHECK(truth([&](FootprintBook& book, double now) {
            RequestState r = Call(0, 1, 3000);
            book.Enters(r, At(now));
            const WaitsFor head = static_cast<int>(now / 100) % 2 == 0 ? WaitsFor::kKv : WaitsFor::kBudget;
            for (int i = 0; i < 2000; ++i) book.PlanEnds(Pressure(head));
            end(book, r, now);
          }) == kExact);
  }
}

TEST_CASE("cancelled or missing work does not teach that predictions are too large") {
  enum class Way { kCancelled, kNeverGoesOn, kNoWorkflow, kRevised, kNoWord };
  for (const Way way : {Way::kCancelled, Way::kNeverGoesOn, Way::kNoWorkflow, Way::kRevised, Way::kNoWord}) {
    CAPTURE(static_cast<int>(way));
    FootprintBook book = Book();
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const double size = 20.0 * (1 << (i % 10));  // in every octave
      const double now = 20.0 * static_cast<double>(i);  // this closes the workflow before
      RequestState r = Call(0, 10, way == Way::kCancelled ? size : 1, way == Way::kNoWorkflow ? 0 : 100 + i);
      if (way != Way::kCancelled) r.request.after = {way == Way::kNoWord ? 0.0 : 5, 10, size, size * size / 2, size};
      book.Enters(r, At(now));
      if (way == Way::kRevised) r.request.after = {5, 0, 0, 0, 0}, book.Enters(r, At(now));
      if (way != Way::kNoWord) r.generated = {1};
      r.cut = way == Way::kCancelled;
      book.Ends(r, At(now));
    }
    for (Slot slot = 1; slot < 10; ++slot) {
      const RequestState honest = Call(slot, 10, 20.0 * (1 << slot));
      book.Enters(honest, At(1e6));
      CHECK(book.Truth(honest) >= 1);
    }
  }
}

TEST_CASE("repeated predictions alone do not make predictions look too small") {
  FootprintBook book = Book();
  for (std::uint64_t i = 0; i < 1000; ++i) {
    RequestState r = Call(0, 10, 1, 100 + i);
    r.request.after = {1, 10, 99, 5000, 99};
    book.Enters(r, At(20.0 * static_cast<double>(i)));
    r.request.after.output_tokens = 1e6;
    book.Enters(r, At(20.0 * static_cast<double>(i)));
    r.generated = {1}, r.cut = true;
    book.Ends(r, At(20.0 * static_cast<double>(i)));
  }
  RequestState asked = Call(1, 10, 100);
  book.Enters(asked, At(1e6));
  CHECK(book.Truth(asked) == 1);

  FootprintBook taught = Book();
  for (int i = 0; i < 1000; ++i) {
    RequestState r = Call(0, 10, 100);
    taught.Enters(r, At(i));
    r.generated = {1000};
    taught.Ends(r, At(i));
  }
  taught.Enters(asked, At(2000));
  const double truth = taught.Truth(asked);
  CHECK(truth > 4);
  RequestState unpredicted = asked;
  unpredicted.request.output_tokens = {};
  taught.Enters(unpredicted, At(2000));
  CHECK(taught.Truth(asked) == 1);
  taught.Enters(asked, At(2000));
  CHECK(taught.Truth(asked) == truth);
}

TEST_CASE("predicted rests of workflows that never continue are corrected") {
  FootprintBook book = Book();
  RequestState r;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    r = Call(0, 10, 0, 100 + i);
    r.request.output_tokens = {};
    r.request.workflow_tokens_left = Estimate::Exact(4000);
    book.Enters(r, At(20.0 * static_cast<double>(i)));
    r.generated = {1000};
    book.Ends(r, At(20.0 * static_cast<double>(i)));
  }
  r.generated = {};
  book.Enters(r, At(1e6));
  CHECK(book.Truth(r) < 0.3);
}

TEST_CASE("one tenant's predictions do not change another's; its own are corrected") {
  constexpr TenantId kHonest{1}, kLiar{2};
  enum class Lie { kDiluted, kTooMuch, kNoName, kNewNames, kDecoys, kOneOctave };
  for (const Lie lie : {Lie::kDiluted, Lie::kTooMuch, Lie::kNoName, Lie::kNewNames, Lie::kDecoys, Lie::kOneOctave}) {
    CAPTURE(static_cast<int>(lie));
    PredictedLengths lengths;
    Random random(5);
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      const double size = std::min(random.LogNormal(7, 1), 1e6);
      lengths.Observe(size, kHonest, size);
      if (i % 4 != 0) continue;
      switch (lie) {
        case Lie::kDiluted:  // a tenth is predicted, next to exact calls of a token
          for (int k = 0; k < 9; ++k) lengths.Observe(1, kLiar, 1);
          lengths.Observe(size / 10, kLiar, size);
          break;
        case Lie::kTooMuch: lengths.Observe(16 * size, kLiar, size); break;
        case Lie::kNoName: lengths.Observe(size / 10, {}, size); break;
        case Lie::kNewNames: lengths.Observe(size / 10, {100 + i}, size); break;
        case Lie::kDecoys:  // each name is new, and was accurate in another octave
          for (int k = 0; k < 9; ++k) lengths.Observe(1, {100 + i}, 1);
          lengths.Observe(size / 10, {100 + i}, size);
          break;
        case Lie::kOneOctave: lengths.Observe(100, {}, 1); break;
      }
    }
    for (const double size : {100., 500., 1000., 2000.}) REQUIRE(lengths.Truth(size, kHonest) == 1);
    switch (lie) {
      case Lie::kDiluted: CHECK(lengths.Truth(100, kLiar) > 4); break;
      case Lie::kTooMuch: CHECK(lengths.Truth(16'000, kLiar) < 0.2); break;
      case Lie::kNoName: CHECK(lengths.Truth(100, {}) > 4); break;
      case Lie::kNewNames: CHECK(lengths.Truth(100, {1'000'000}) > 4); break;
      case Lie::kDecoys:
        for (int k = 0; k < 9; ++k) lengths.Observe(1, {1'000'000}, 1);
        CHECK(lengths.Truth(100, {1'000'000}) > 4);
        break;
      case Lie::kOneOctave: CHECK(lengths.Truth(100, {}) < 0.25);
    }
  }
}

TEST_CASE("a hundred tenants get separate corrections, and so does a rare one") {
  PredictedLengths equal;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const TenantId tenant{1 + i % 100};
    const double off = tenant.value % 2 == 0 ? 4 : 1, truth = equal.Truth(150, tenant);
    if (i > 2000 && !(off > 1 ? truth > 2.5 : truth == 1)) FAIL("taken for another at " << i);
    equal.Observe(150, tenant, off * 150);
  }

  PredictedLengths lengths;
  Random random(5);
  constexpr TenantId kSeldom{1};
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    const double size = random.LogNormal(5, 1);
    if (random.Below(100) == 0) {
      lengths.Observe(size, kSeldom, 4 * size);
    } else {
      lengths.Observe(size, {100 + i}, size);
    }
    if (i > 20'000 && !(lengths.Truth(150, kSeldom) > 2.5)) FAIL("forgotten after " << i);
  }
  CHECK(lengths.Truth(150, {}) < 1.1);
  CHECK(lengths.Truth(150, {50}) == lengths.Truth(150, {}));
  CHECK(lengths.Save().size() == PredictedLengths::kWords);

  PredictedLengths shared;
  for (int i = 0; i < 100; ++i) shared.Observe(100, {}, 800);
  CHECK(shared.Truth(100, {9}) > 4);
  for (double i = 0; i < PredictedLengths::kNewcomer; ++i) {
    CHECK(shared.Truth(100, {9}) == shared.Truth(100, {}));
    shared.Observe(100, {9}, 100);
  }
  CHECK(shared.Truth(100, {9}) == 1);
}

TEST_CASE("a revised prediction is corrected, and the first taken one is judged") {
  FootprintBook book = Book();
  const auto call = [](double output) { return Call(0, 1, output); };
  for (int i = 0; i < 1000; ++i) {
    RequestState r = call(i % 2 == 0 ? 20 : 5000);
    book.Enters(r, At(i));
    r.generated = {i % 2 == 0 ? 160 : 5000};
    book.Ends(r, At(i));
  }
  book.Enters(call(20), At(2000));
  const double small = book.Truth(call(20));
  CHECK(small > 3);
  book.Enters(call(5000), At(2001));
  CHECK(book.Truth(call(5000)) < 0.5 * small);
  book.Enters(call(20), At(2002));
  CHECK(book.Truth(call(20)) == small);

  // A host that predicts again and again, with errors, has the error of one prediction.
  for (const bool runs : {false, true}) {
    CAPTURE(runs);
    FootprintBook revised = Book();
    Random random(3);
    for (int i = 0; i < 2000; ++i) {
      RequestState r = call(1000 * random.LogNormal(0, 0.3));
      for (int k = 0; k < 20; ++k) {
        r.request.output_tokens = Estimate::Exact(1000 * random.LogNormal(0, 0.3));
        r.taken = runs && k > 0;
        revised.Enters(r, At(i));
      }
      r.generated = {1000};
      revised.Ends(r, At(i));
    }
    revised.Enters(call(1000), At(3000));
    CHECK(revised.Truth(call(1000)) == Approx(1).epsilon(0.02));
  }
  // A revision after the request was taken does not undo the prediction before.
  FootprintBook late = Book();
  for (int i = 0; i < 500; ++i) {
    RequestState r = call(100);
    late.Enters(r, At(i));
    r.taken = true, r.request.output_tokens = Estimate::Exact(1000);
    late.Enters(r, At(i));
    r.generated = {1000};
    late.Ends(r, At(i));
  }
  late.Enters(call(100), At(600));
  CHECK(late.Truth(call(100)) > 4);
}

TEST_CASE("the prediction that placed a call or workflow is judged") {
  constexpr TenantId kOwner{1}, kOther{2};
  const auto call = [](TenantId tenant, WorkflowId workflow, double output, double rest) {
    RequestState r = Call(0, 1, output, workflow.value);
    r.request.tenant = tenant;
    if (rest >= 0) r.request.after = {rest > 0 ? 1.0 : 0.0, 0, rest, 0, rest};
    return r;
  };
  const auto truth = [&](FootprintBook& book, double output) {
    const RequestState asked = call(kOwner, {}, output, -1);
    book.Enters(asked, At(1e6));
    return book.Truth(asked);
  };
  const auto end = [](FootprintBook& book, RequestState r, int at, int generated) {
    r.generated = {generated};
    book.Ends(r, At(at));
  };

  SECTION("a lower prediction before the call is taken is judged") {
    FootprintBook book = Book();
    for (std::uint64_t i = 0; i < 500; ++i) {
      const int at = static_cast<int>(i);
      RequestState r = call(kOwner, {100 + i}, 1000, 0);
      book.Enters(r, At(at));
      r.request.output_tokens = Estimate::Exact(60);
      book.Enters(r, At(at));
      r.taken = true, r.request.output_tokens = Estimate::Exact(1000);
      book.Enters(r, At(at));
      end(book, r, at, 1000);
    }
    CHECK(truth(book, 60) > 4);
  }
  SECTION("predictions withdrawn before, or first made after, are not judged") {
    for (const double rest : {-1., 0.}) {
      CAPTURE(rest);
      FootprintBook book = Book();
      for (int i = 0; i < 500; ++i) {
        RequestState r = call(kOwner, {}, 10, rest);
        book.Enters(r, At(i));
        r.request.output_tokens = {};
        book.Enters(r, At(i));
        r.taken = true, r.request.output_tokens = Estimate::Exact(20);
        book.Enters(r, At(i));
        end(book, r, i, 1000);
      }
      CHECK(truth(book, 10) == 1);
    }
  }
  SECTION("sequences that the host ends count on neither side") {
    FootprintBook book = Book();
    for (int i = 0; i < 500; ++i) {
      RequestState r = call(kOwner, {}, 50, -1);
      r.request.sequences = 4;
      book.Enters(r, At(i));
      r.taken = true, r.request.sequences = 1;
      book.Enters(r, At(i));
      end(book, r, i, 50);
    }
    CHECK(truth(book, 200) == 1);
  }
  SECTION("another tenant's calls in a workflow do not count for its owner") {
    FootprintBook book = Book();
    for (std::uint64_t i = 0; i < 500; ++i) {
      const int at = 20 * static_cast<int>(i);
      RequestState owners = call(kOwner, {100 + i}, 100, -1);
      owners.request.workflow_tokens_left = Estimate::Exact(100);
      book.Enters(owners, At(at));
      end(book, owners, at, 100);
      const RequestState others = call(kOther, {100 + i}, 2000, -1);
      book.Enters(others, At(at + 1));
      end(book, others, at + 1, 2000);
    }
    CHECK(truth(book, 100) == 1);
  }
  SECTION("a workflow forgotten for want of room does not count as ended") {
    FootprintBook book = Book();
    for (std::uint64_t i = 0; i < 20; ++i) {
      const int at = 20 * static_cast<int>(i);
      RequestState r = call(kOwner, {10 + i}, 10, -1);
      r.request.workflow_tokens_left = Estimate::Exact(1000);
      book.Enters(r, At(at));
      end(book, r, at, 10);
      for (std::uint64_t k = 0; k <= FootprintBook::kLeastIdle; ++k) {
        const RequestState crumb = call(kOther, {1'000'000 + 10'000 * i + k}, 1, -1);
        book.Enters(crumb, At(at));
        end(book, crumb, at, 1);
      }
    }
    CHECK(truth(book, 1000) == 1);
  }
}

TEST_CASE("large predictions with raw errors are corrected before any of them ends") {
  PredictedLengths lengths;
  Random random(3);
  const auto truly = [](double predicted) { return 1000 * std::sqrt(predicted / 1000); };
  for (int i = 0; i < 5000; ++i) {  // E[true | predicted] is as its root; work predicted beyond 4,000 never ends
    const double predicted = 1000 * random.LogNormal(0, 1);
    if (predicted < 4000) lengths.Observe(predicted, {}, truly(predicted) * random.LogNormal(-0.02, 0.2));
  }
  for (const double predicted : {300., 1000., 3000., 16'000., 100'000.}) {
    CHECK(predicted * lengths.Truth(predicted, {}) == Approx(truly(predicted)).epsilon(0.2));
  }
  double before = 0;
  for (double x = 1; x < 1e6; x *= 1.01)
    CHECK(std::exchange(before, x * lengths.Truth(x, {})) <= x * lengths.Truth(x, {}));
}

TEST_CASE("predictions with small errors get no correction") {
  PredictedLengths lengths;
  Random random(3);
  for (int i = 0; i < 5000; ++i) {
    const double predicted = random.LogNormal(7, 1);
    lengths.Observe(predicted, {1}, predicted * 0.8 * random.LogNormal(-0.245, 0.7));
  }
  for (const double predicted : {100., 1000., 10'000.}) CHECK(lengths.Truth(predicted, {1}) == 1);
}

TEST_CASE("corrections keep the order of predictions, and absurd values stay bounded") {
  PredictedLengths lengths;
  Random random(5);
  for (int i = 0; i < 20'000; ++i) {
    const double size = random.LogNormal(7, 1);
    lengths.Observe(size, {}, size);
    if (i % 20 == 0) lengths.Observe(16'384 + 16'000 * random.Uniform(), {}, 1);
  }
  CHECK(lengths.Truth(24'000, {}) < 1);  // otherwise this tests nothing
  double before = 0;
  for (double x = 1; x < 1e6; x *= 1.01) {
    const double taken = x * lengths.Truth(x, {});
    CHECK(before <= taken * (1 + 1e-12));
    before = taken;
  }
  for (const double odd : {0.0, 1e-300, 1e300, std::nan("")}) {
    for (const double taken : {0.0, 1.0, 1e300, std::nan("")}) lengths.Observe(odd, {2}, taken);
    CHECK(lengths.Truth(odd, {2}) >= 1.0 / 16);
    CHECK(lengths.Truth(odd, {2}) <= 16);
  }
  CHECK(PredictedLengths().Load(lengths.Save()));  // no sum is absurd
}

TEST_CASE("tail and cut agree with the samples") {
  for (const double sigma : {0.1, 0.7, 1.2, 1.8}) {
    Random random(7);
    WorkSizes works;
    std::vector<double> sizes;
    for (int i = 0; i < 2000; ++i) {  // nothing is forgotten so far
      sizes.push_back(random.LogNormal(0, sigma));
      works.End({}, sizes.back());
    }
    double sum = 0, squares = 0;
    for (const double c : sizes) sum += c, squares += c * c;
    const double tail = squares * static_cast<double>(sizes.size()) / (sum * sum);
    INFO(sigma);
    CHECK(works.tail() == Approx(tail).epsilon(0.02));
    std::ranges::sort(sizes);
    constexpr double share = WorkSizes::kShare;
    double below = 0;
    std::size_t at = 0;
    while (below + sizes[at] < share * sum) below += sizes[at++];
    CHECK(works.cut() == Approx(sizes[at]).epsilon(kWithin));
  }
}

// Predicted and true sizes of works.
using Sizes = std::vector<std::pair<double, double>>;

struct Latencies {
  double mean = 0, p95 = 0, p99 = 0;
};

// One server without preemption. Work arrives at 1.1 times its capacity. It is served in the order of a policy that
// knows the predictions. A token takes a millisecond.
Latencies Serve(const Sizes& sizes, const std::string& spec) {
  AnyPolicy policy = *MakePolicy(spec);
  policy.PlanEnds(Pressure(WaitsFor::kNothing), At(0));
  double total = 0;
  for (const auto& [predicted, size] : sizes) total += size;
  const double gap = total / 1.1 / static_cast<double>(sizes.size());
  std::set<std::tuple<double, std::size_t>> queue;  // ordered by key
  std::vector<RequestState> calls;
  std::vector<double> took;
  double now = 0, free_at = 0, sum = 0;
  while (took.size() < sizes.size()) {
    const std::size_t next = calls.size();
    const double arrives = next < sizes.size() ? gap * static_cast<double>(next) : 1e300;
    if (arrives <= std::max(free_at, now) || queue.empty()) {
      now = std::max(now, arrives);
      RequestState r = Call(static_cast<Slot>(next), 1, std::max(1000 * sizes[next].first, 1.0));
      r.enqueued = r.request.arrival = r.request.workflow_arrival = At(arrives);
      policy.Enters(r, At(now));
      queue.emplace(policy.Key(r).key, next);
      calls.push_back(r);
      continue;
    }
    now = std::max(free_at, now);
    const std::size_t first = std::get<1>(*queue.begin());
    queue.erase(queue.begin());
    free_at = now + sizes[first].second;
    calls[first].generated = {std::max(static_cast<std::int32_t>(1000 * sizes[first].second), 1)};
    policy.Ends(calls[first], At(free_at));
    took.push_back(free_at - gap * static_cast<double>(first));
    sum += took.back();
  }
  std::ranges::sort(took);
  const auto at = [&](double share) {
    return took[static_cast<std::size_t>(share * static_cast<double>(took.size()))];
  };
  return {sum / static_cast<double>(took.size()), at(0.95), at(0.99)};
}

// Predicted sizes have raw log-normal errors. Raw predictions are not expected values.
TEST_CASE("p95 stays within tail_factor, p99 at most doubles, and the mean falls") {
  for (const double sigma : {0.7, 1.2, 2.0}) {
    for (const double error : {0.0, 1.0}) {
      Random random(11);
      Sizes sizes;
      for (int i = 0; i < 20'000; ++i) {
        const double size = random.LogNormal(0, sigma);
        sizes.emplace_back(size * random.LogNormal(0, error), size);
      }
      const Latencies fcfs = Serve(sizes, "fcfs");
      double before = fcfs.mean;
      for (const double factor : {1.05, 1.1, 1.15}) {
        CAPTURE(sigma, error, factor);
        const Latencies ours = Serve(
            sizes, "boosted_footprint(step_s=0,prefill_s=0,sequence_s=0.001,context_s=0,horizon_s=1e9,tail_factor=" +
                       std::to_string(factor) + ")");
        CHECK(ours.p95 <= factor * fcfs.p95);
        CHECK(ours.p99 <= (2 * factor - 1) * fcfs.p99);
        CHECK(ours.mean < before);
        before = ours.mean;
      }
      CHECK(before < (error > 0 && sigma < 1 ? 0.98 : 0.9) * fcfs.mean);
    }
  }
}

TEST_CASE("works with predicted means alone are as unequal as those means") {
  Random random(5);
  WorkSizes guessed, predicted;
  for (int i = 0; i < 1920; ++i) {
    const double mean = i % 2 == 0 ? 1 : 4, size = mean * random.Exponential();
    guessed.End(guessed.Expect(mean, true), size);
    predicted.End(predicted.Expect(mean), size);
  }
  CHECK(guessed.tail() == Approx((1 + 16) * 2 / 25.0).epsilon(0.05));
  CHECK(predicted.tail() == Approx((1 + 16) * 2 * 2 / 25.0).epsilon(0.2));  // exponential: twice that
}

TEST_CASE("predictions and a fading prior count until enough works have ended") {
  WorkSizes works, known;
  CHECK(works.cut() == 0);
  CHECK(works.tail() == 2);
  const WorkSizes::Entry giant = works.Expect(90), small = works.Expect(2);
  const double q = (90 * 90 + 2 * 2) * 2 / (92.0 * 92.0);
  CHECK(works.tail() == Approx((2 * 16 + q * 2) / 18).epsilon(0.01));
  CHECK(works.cut() == Approx(90).epsilon(kWithin));
  const WorkSizes::Entry absurd = works.Expect(1e300);
  CHECK(absurd.size == 100);
  works.End(small, 3), known.End({}, 3);
  for (int i = 1; i < WorkSizes::kEnough; ++i) works.End(works.Expect(5), 3), known.End({}, 3);
  CHECK(works.cut() == known.cut());
  CHECK(works.tail() == known.tail());
  works.Withdraw(absurd);
  works.End(giant, 80), known.End({}, 80);
  CHECK(works.cut() == known.cut());
  CHECK(works.tail() == known.tail());
}

TEST_CASE("equal works have no tail") {
  WorkSizes works;
  CHECK(works.Unequal() == 1);  // as for exponential sizes, until more is known
  for (int i = 0; i < WorkSizes::kEnough; ++i) works.End({}, 3);
  CHECK(works.cut() == Approx(3).epsilon(kWithin));
  CHECK(works.tail() == Approx(1));
  CHECK(works.Unequal() == Approx(0).margin(1e-9));
  for (const double odd : {0.0, -1.0, 1e300, 1e-300}) works.End(works.Expect(odd), odd);
  CHECK(std::isfinite(works.tail()));
}

// A hundred works of size 3 have ended.
WorkSizes Threes() {
  WorkSizes works;
  for (int i = 0; i < 100; ++i) works.End({}, 3);
  return works;
}

TEST_CASE("a work's true size replaces its predicted size at its remaining weight") {
  for (const int later : {0, 100, 3000, 20'000}) {
    WorkSizes predicted = Threes(), known = Threes();
    const WorkSizes::Entry entry = predicted.Expect(1), same = known.Expect(6);
    for (int i = 0; i < later; ++i) {
      for (WorkSizes* works : {&predicted, &known}) works->End(works->Expect(2 + i % 3), 2 + i % 3);
    }
    predicted.End(entry, 6), known.End(same, 6);
    for (int i = 0; i < 2 * WorkSizes::kEnough; ++i) predicted.End({}, 3), known.End({}, 3);
    INFO(later);
    CHECK(predicted.tail() == Approx(known.tail()).epsilon(1e-6));
    CHECK(predicted.cut() == Approx(known.cut()));
  }
}

TEST_CASE("an expected work counts within bounds until it is withdrawn") {
  WorkSizes works = Threes();
  const WorkSizes::Entry entry = works.Expect(1e9);
  CHECK(entry.size == Approx(48));
  CHECK(works.tail() < 3);
  CHECK(works.cut() == Approx(48).epsilon(kWithin));  // its weight is 48 of 348
  works.Withdraw(entry);
  CHECK(works.tail() == Approx(1).margin(1e-9));
  CHECK(works.cut() == Approx(3).epsilon(kWithin));
}

TEST_CASE("works of another size change the estimate after a while") {
  WorkSizes works;
  for (int i = 0; i < 10'000; ++i) works.End({}, 1);
  for (int i = 0; i < 20'000; ++i) works.End(works.Expect(100), 100);
  CHECK(works.cut() == Approx(100).epsilon(kWithin));
  CHECK(works.tail() == Approx(1).epsilon(0.02));
}

// Tested early and late, and cancelled before it ran, after one token, or never.
TEST_CASE("one absurd prediction counts for little") {
  for (const int before : {2, 500}) {
    for (const int generated : {0, 1, -1}) {
      CAPTURE(before, generated);
      FootprintBook book = Book();
      for (int i = 0; i < before; ++i) Run(book, Call(0, 100, 50), i);
      RequestState absurd = Call(2, 100, 1e15);
      absurd.request.after = {1e18, 1e18, 1e15, 1e18, 1e18};
      book.Enters(absurd, At(0));
      const RequestState sane = Call(1, 100, 50);
      book.Enters(sane, At(0));
      if (before >= WorkSizes::kEnough) CHECK(book.Drain() < 17.1 * book.Left(sane));
      if (generated >= 0) {
        absurd.generated = {generated};
        book.Ends(absurd, At(1));
        if (before >= WorkSizes::kEnough) CHECK(book.Drain() == Approx(book.Left(sane)).epsilon(0.06));
      }
      for (int i = 0; i < 100; ++i) Run(book, Call(0, 100, 50), 2 + i);
      if (before < WorkSizes::kEnough || generated >= 0) CHECK(book.works().tail() < 1.1);
      CHECK(book.works().tail() < 2);
      CHECK(book.works().cut() == Approx(book.Left(sane)).epsilon(kWithin));
      for (int i = 0; i < 10'000; ++i) Run(book, Call(0, 100, 50), 200 + i);
      CHECK(book.Truth(sane) == Approx(1).epsilon(0.02));
      const bool unseen = before < WorkSizes::kEnough && generated < 0;  // it came before anything was known, and stays
      CHECK(book.Drain() < 18 * book.Left(sane) + (unseen ? 101 : 0));
    }
  }
}

TEST_CASE("an output counts for at most the host's cap") {
  FootprintBook book = Book();
  RequestState capped = Call(0, 100, 1e6), predicted = Call(1, 100, 20);
  capped.request.max_output_tokens = {20};
  book.Enters(capped, At(0)), book.Enters(predicted, At(0));
  CHECK(book.Left(capped) == Approx(book.Left(predicted)));
}

TEST_CASE("sequences share a prompt, and predictions of them are accurate") {
  FootprintBook book = Book();
  for (int i = 0; i < 100; ++i) {
    RequestState r = Call(0, 1000, 50);
    r.request.sequences = 4;
    book.Enters(r, At(i));
    r.generated = {50};
    book.Ends(r, At(i));
  }
  book.Enters(Call(0, 1, 1), At(2000));
  CHECK(book.Truth(Call(0, 1, 1)) == Approx(1).epsilon(0.01));
  RequestState one = Call(1, 1000, 50), four = Call(2, 1000, 50);
  four.request.sequences = 4;
  CHECK(book.PathSeconds(four) == Approx(book.PathSeconds(one)));
}

TEST_CASE("parallel calls without predictions count one by one") {
  FootprintBook book = Book();
  for (Slot slot = 0; slot < 10; ++slot) book.Enters(Call(slot, 100, 50, 7), At(0));
  CHECK(book.Drain() == Approx(10 * book.Left(Call(0, 100, 50))));
  for (Slot slot = 0; slot < 10; ++slot) book.Ends(Call(slot, 100, 50, 7), At(0));
  CHECK(book.Drain() == 0);
}

TEST_CASE("ten thousand absurd predictions do not overflow the backlog") {
  FootprintBook book = Book();
  for (int i = 0; i < 100; ++i) {
    RequestState r = Call(0, 1, 1e9);
    book.Enters(r, At(i));
    r.generated = {1'000'000'000};
    book.Ends(r, At(i));
  }
  for (Slot slot = 0; slot < 10'000; ++slot) book.Enters(Call(slot, 100, 1e15), At(0));
  CHECK(book.Drain() > 0);
}

// ---- orders -----------------------------------------------------------------------------------------------------

// With ended works, so that a tail and a cut are known: every 10th takes 1 s of the engine, the others 0.1 s.
template <class P>
P Experienced() {
  P policy;
  policy.set_pace({.step_s = 0, .prefill_s = 0, .sequence_s = 1e-3, .context_s = 0});
  policy.PlanEnds(Pressure(WaitsFor::kNothing), At(0));
  for (int i = 0; i < 200; ++i) {
    RequestState r = Call(0, 1, i % 10 == 0 ? 1000 : 100);
    policy.Enters(r, At(0));
    r.generated = {static_cast<std::int32_t>(r.request.output_tokens.mean)};
    policy.Ends(r, At(0));
  }
  return policy;
}

TEST_CASE("footprint ranks the least work first") {
  auto policy = Experienced<Footprint>();
  const RequestState small = Call(0, 1, 20), large = Call(1, 1, 300);
  policy.Enters(large, At(0)), policy.Enters(small, At(1));
  CHECK(policy.Key(small).key == Approx(0.02));
  CHECK(policy.Key(large).key == Approx(0.3));
}

TEST_CASE("boosted_footprint has the key computed by hand, and keeps it") {
  auto policy = Experienced<BoostedFootprint>();
  // E[C] = 0.19, E[C^2] = 0.109: q = 3.02. The sizes sum to 38 s, 18 s in works of 0.1 s and 20 s in works of 1 s.
  // Works of 1 s count as spread over a quarter of an octave.
  const double q = 0.109 / (0.19 * 0.19);
  const double below = 38 * 0.95, cut = std::exp2(((below - 18) / 20 - 0.5) / 4);
  RequestState giant = Call(0, 1, 5000), small = Call(1, 1, 20);
  giant.request.arrival = giant.request.workflow_arrival = At(7);
  small.request.arrival = small.request.workflow_arrival = At(9);
  policy.Enters(giant, At(7)), policy.Enters(small, At(9));
  CHECK(policy.Key(giant).key == Approx(7));
  const KeyParts parts = policy.Explain(small);
  CHECK(Part(parts, "C_s") == Approx(0.02));
  CHECK(Part(parts, "V_s") == Approx(5.02));
  CHECK(Part(parts, "usual_s") == 1);  // the minimum, since the engine was idle until now
  // a backlog that comes and goes
  const double expected = 9 - 20.0 / 3 * 0.15 * std::pow(q / 3, 2) * std::log(cut / 0.02);
  CHECK(policy.Key(small).key == Approx(expected));
  CHECK(Part(parts, "q") == Approx(q));
  CHECK(Part(parts, "Cw_s") == Approx(cut));
  CHECK(Part(parts, "deadline_s") == 0);
  CHECK(Part(parts, "p_kv") == Approx(1.0 / 3));

  for (Slot slot = 2; slot < 50; ++slot) policy.Enters(Call(slot, 1, 900), At(10));
  CHECK(policy.Key(small).key == Approx(expected));
}

TEST_CASE("head starts depend on the mean backlog at arrivals") {
  AnyPolicy policy = *MakePolicy(
      "boosted_footprint(step_s=0,prefill_s=0,sequence_s=0.001,context_s=0,least_drain_s=0.001,tail_factor=2)");
  policy.PlanEnds(Pressure(WaitsFor::kNothing), At(0));
  double sum = 0, backlog = 0;
  for (Slot slot = 0; slot < 100; ++slot) {
    const double seconds = slot % 10 == 0 ? 1 : 0.1;
    policy.Enters(Call(slot, 1, 1000 * seconds), At(0));
    sum += backlog += seconds;
    const KeyParts parts = policy.Explain(Call(slot, 1, 1000 * seconds));
    CHECK(Part(parts, "V_s") == Approx(backlog));
    CHECK(Part(parts, "usual_s") == Approx(sum / (slot + 1)));
  }
  policy.Enters(Call(5, 1, 100), At(1));  // a call that is present already is no arrival
  RequestState small = Call(100, 1, 20);
  policy.Enters(small, At(1));
  const KeyParts parts = policy.Explain(small);
  CHECK(Part(parts, "usual_s") == Approx((sum + backlog + 0.02) / 101));
  CHECK(Part(parts, "kappa") == Approx(3 * std::pow(std::max(Part(parts, "q") / 3, 1.0), 2)));
  CHECK(-policy.Key(small).key ==
        Approx(Part(parts, "kappa") * Part(parts, "usual_s") * std::log(Part(parts, "Cw_s") / 0.02)));
}

TEST_CASE("head starts weigh more for varying backlogs than for growing ones") {
  auto policy = Experienced<BoostedFootprint>();
  Slot first = 0, slot = 0;
  const auto come = [&](int calls, Slot every) {  // before every `every`-th arrival, all earlier calls leave
    for (int i = 0; i < calls; ++i, ++slot) {
      if (every > 0 && slot % every == 0) {
        for (; first < slot; ++first) policy.Ends(Call(first, 1, 100), At(slot));
      }
      policy.Enters(Call(slot, 1, slot % 3 == 0 ? 900 : 100), At(slot));
    }
    const KeyParts parts = policy.Explain(Call(slot - 1, 1, 100));
    const double q = Part(parts, "q"), h = std::clamp(q / 3, 1.0, 2.0);
    CHECK(3 * (1 - 1 / q) >= 1);
    return Part(parts, "kappa") / (0.15 * h * h);
  };
  CHECK(come(1000, 8) == Approx(20.0 / 3));
  CHECK(come(1000, 2) == Approx(20.0 / 3));
  const double between = come(500, 0);
  CHECK(between > 3);
  CHECK(between < 20.0 / 3);
  CHECK(come(3000, 0) == Approx(3).epsilon(0.01));
}

TEST_CASE("a cancelled backlog is soon forgotten") {
  auto policy = Experienced<BoostedFootprint>();
  for (Slot slot = 10; slot < 2010; ++slot) policy.Enters(Call(slot, 1, 1e9), At(1));
  const RequestState early = Call(0, 1, 20);
  policy.Enters(early, At(1));
  CHECK(Part(policy.Explain(early), "usual_s") > 1000);
  for (Slot slot = 10; slot < 2010; ++slot) policy.Ends(Call(slot, 1, 1e9), At(2));
  policy.Ends(early, At(2));
  const RequestState r = Call(0, 1, 900);
  policy.Enters(r, At(3));
  CHECK(Part(policy.Explain(r), "usual_s") <= 8 * Part(policy.Explain(r), "V_s"));
}

TEST_CASE("an idle engine's backlog counts as a second for head starts") {
  auto policy = Experienced<BoostedFootprint>();
  RequestState r = Call(0, 1, 20);
  r.request.arrival = r.request.workflow_arrival = At(50);
  policy.Enters(r, At(50));
  CHECK(Part(policy.Explain(r), "V_s") == 1);
  CHECK(policy.Key(r).key > 50 - 1.6 * std::log(50.0));
}

// Twenty workflows have ended that were given `seconds`.
AnyPolicy Dated(const std::string& options, double seconds) {
  AnyPolicy policy = *MakePolicy("boosted_footprint(tail_factor=1" + options + ")");
  for (int i = 0; i < 20; ++i) {
    RequestState r = Call(0, 100, 50);
    r.request.deadline = At(seconds);
    policy.Enters(r, At(0));
    r.generated = {50};
    policy.Ends(r, At(0));
  }
  return policy;
}

// Returns its head start in units of V.
double DeadlineStart(AnyPolicy& policy, const RequestState& r) {
  policy.Enters(r, At(0));
  const KeyParts parts = policy.Explain(r);
  CHECK(ToSeconds(r.request.workflow_arrival) - policy.Key(r).key == Approx(Part(parts, "deadline_s")).margin(1e-9));
  return Part(parts, "deadline_s") / Part(parts, "V_s");
}

RequestState Due(double seconds, Slot slot = 30) {
  RequestState r = Call(slot, 100, 50);
  r.request.deadline = At(seconds);
  return r;
}

TEST_CASE("a deadline counts relative to the usual time that workflows are given") {
  struct Case {
    double seconds, start;
  };
  // the last: expired
  for (const Case& c : {Case{20, 0}, {10, 0.5}, {1, 0.95}, {30, 0}, {1e8, 0}, {0, 0}, {-1e6, 0}}) {
    AnyPolicy policy = Dated("", 20);
    INFO(c.seconds);
    CHECK(DeadlineStart(policy, Due(c.seconds)) == Approx(c.start).margin(1e-6));
  }
  struct Set {
    const char* options;
    double start;
  };
  for (const Set& set : {Set{",preset=tail", 0.5 / 3}, {",deadline_weight=0", 0}, {",deadline_weight=2", 1}}) {
    AnyPolicy policy = Dated(set.options, 20);
    INFO(set.options);
    CHECK(DeadlineStart(policy, Due(10)) == Approx(set.start).margin(1e-6));
  }
  AnyPolicy policy = Dated("", 20);
  RequestState r = Due(10);
  r.request.compute = FromSeconds(1);  // the call's own deadline, from a router
  CHECK(DeadlineStart(policy, r) == 0);
  CHECK(DeadlineStart(policy, Call(31, 100, 50)) == 0);
  AnyPolicy fresh = *MakePolicy("boosted_footprint(tail_factor=1)");
  CHECK(DeadlineStart(fresh, Due(10)) == 0);  // the time given is not known for any workflow
}

// This holds even if each call of a conversation has a deadline of its own.
TEST_CASE("a workflow's first call sets the time that it is given") {
  AnyPolicy policy = Dated("", 20);
  RequestState first = Due(10);
  first.request.workflow = {7};
  CHECK(DeadlineStart(policy, first) == Approx(0.5));
  RequestState later = Due(1000, 31);
  later.request.workflow = {7};
  later.request.arrival = At(990);
  policy.Enters(later, At(990));
  const KeyParts parts = policy.Explain(later);
  CHECK(Part(parts, "deadline_s") == Approx(0.5 * Part(parts, "V_s")));
}

TEST_CASE("absurd deadlines and decoys hardly change the usual time; ended workflows do") {
  for (const double absurd : {1e-9, 1e9}) {
    AnyPolicy policy = Dated("", 20);
    RequestState r = Due(absurd, 40);
    policy.Enters(r, At(0));
    r.generated = {50};
    policy.Ends(r, At(0));
    for (int i = 0; i < 500; ++i) {  // cancelled before their first run
      policy.Enters(Due(absurd, 41), At(0));
      policy.Ends(Due(absurd, 41), At(0));
    }
    CHECK(std::abs(DeadlineStart(policy, Due(20, 42))) < 0.15);
    for (int i = 0; i < 5000; ++i) {
      r = Due(100, 43);
      policy.Enters(r, At(0));
      r.generated = {50};
      policy.Ends(r, At(0));
    }
    CHECK(DeadlineStart(policy, Due(20, 44)) == Approx(0.8).margin(0.01));
  }
}

TEST_CASE("one giant does not give an idle engine unbounded head starts") {
  AnyPolicy policy = *MakePolicy("boosted_footprint");
  for (int i = 0; i < 2000; ++i) {
    RequestState r = Call(0, 1, i == 1000 ? 1e5 : 100);
    policy.Enters(r, At(0));
    r.generated = {static_cast<std::int32_t>(r.request.output_tokens.mean)};
    policy.Ends(r, At(0));
  }
  RequestState r = Call(0, 1, 1);
  policy.Enters(r, At(0));
  const KeyParts parts = policy.Explain(r);
  CHECK(Part(parts, "q") > 100);
  CHECK(Part(parts, "V_s") == 1);
  CHECK(-policy.Key(r).key <= 20.0 / 3 * 0.15 * 4 * std::log(Part(parts, "Cw_s") / Part(parts, "C_s")) + 1e-6);
}

TEST_CASE("presets use a third of the head starts and footprint's order") {
  const auto key = [](const char* spec) {
    AnyPolicy policy = *MakePolicy(spec);
    RequestState r;
    for (int i = 0; i < 300; ++i) {
      r = Call(0, 100 + i % 7, i % 10 == 0 ? 1000 : 100);
      policy.Enters(r, At(i));
      r.generated = {static_cast<std::int32_t>(r.request.output_tokens.mean)};
      if (i < 299) policy.Ends(r, At(i));
    }
    RequestState small = Call(1, 10, 20);
    small.request.arrival = small.request.workflow_arrival = At(300);
    policy.Enters(small, At(300));
    return policy.Key(small).key;
  };
  CHECK(300 - key("boosted_footprint(preset=tail)") == Approx((300 - key("boosted_footprint")) / 3));
  CHECK(300 - key("boosted_footprint(tail_factor=1.075)") == Approx((300 - key("boosted_footprint")) / 2));
  CHECK(key("boosted_footprint(preset=mean)") == Approx(key("footprint")));
  CHECK(key("boosted_footprint(tail_factor=1)") == 300);
  CHECK_FALSE(MakePolicy("boosted_footprint(preset=best)").ok());
}

TEST_CASE("goodput ranks a request last once it misses its deadline") {
  auto policy = *MakePolicy("boosted_footprint(preset=goodput,step_s=0.01,context_s=0,prefill_s=0)");
  testing::Host<AnyPolicy> host({.kv_blocks = {100}}, {.max_seqs = 1}, policy);
  host.Arrive(1, 16);
  host.Step();
  Request r = testing::Prompt(2, 1);
  r.output_tokens = Estimate::Exact(5);  // 50 ms, and its successors another 50
  r.after = {1, 1, 5, 100, 5};
  r.deadline = testing::Ms(200);
  host.Arrive(r);
  r = testing::Prompt(3, 1);
  r.output_tokens = Estimate::Exact(50);  // larger, without a deadline
  host.Arrive(r);
  CHECK(host.scheduler.Explain({2}).ahead == 0);
  host.now = 98;
  host.Step();
  CHECK(host.scheduler.Explain({2}).ahead == 0);
  host.now = 100;
  host.Step();
  CHECK(host.scheduler.Explain({2}).ahead == 1);
  r = testing::Prompt(4, 1);
  r.output_tokens = Estimate::Exact(1);
  r.deadline = testing::Ms(50);  // expired
  host.Arrive(r);
  CHECK(host.scheduler.Explain({4}).ahead == 1);
  CHECK(host.scheduler.Explain({2}).ahead == 2);
}

// docs/reference/policies/boosted_footprint.md: this holds for keys alone, with any ages, sizes and deadlines of
// workflows.
TEST_CASE("a request that comes two horizons later passes none") {
  for (const double horizon : {0.0, 5.0, 60.0}) {
    std::int64_t at_horizon = 0;
    for (std::int64_t seed = 1; seed <= Scaled(10); ++seed) {
      Random random(static_cast<std::uint64_t>(seed));
      AnyPolicy policy = *MakePolicy("boosted_footprint(horizon_s=" + std::to_string(horizon) + ")");
      std::vector<std::pair<double, double>> seen;  // arrival, key
      double now = 0;
      std::vector<RequestState> alive;
      for (Slot slot = 0; slot < 400; ++slot) {
        now += random.Uniform();
        const auto prompt = static_cast<std::int32_t>(1 + random.Below(3000));
        RequestState r = Call(slot, prompt, random.LogNormal(5, 2));
        r.request.arrival = At(now);
        r.request.workflow_arrival = At(now + (random.Chance(0.5) ? 0 : random.LogNormal(3, 3) - 200));
        if (random.Chance(0.5)) r.request.deadline = At(now + random.LogNormal(4, 3) - 10);
        policy.Enters(r, At(now));
        const double key = policy.Key(r).key;
        REQUIRE(key <= now + 1e-9);
        REQUIRE(key >= now - 2 * horizon - 1e-9);
        at_horizon += key <= now - horizon + 1e-6;
        for (const auto& [arrival, earlier] : seen) {
          if (now > arrival + 2 * horizon + 1e-9) REQUIRE(earlier <= key);
        }
        seen.emplace_back(now, key);
        alive.push_back(r);
        while (alive.size() > 60) {
          const auto at = static_cast<std::ptrdiff_t>(random.Below(alive.size()));
          RequestState ended = alive[static_cast<std::size_t>(at)];
          ended.generated = {1 + static_cast<std::int32_t>(random.Below(500))};
          policy.Ends(ended, At(now));
          alive.erase(alive.begin() + at);
        }
      }
    }
    CHECK(at_horizon > 0);
  }
}

// A tenant floods an engine with small calls that need twice its capacity. The calls are one old workflow, or each is
// its own. Another tenant's large call is served after the calls that were there and those of two horizons. It is not
// served under footprint, or without a binding horizon.
TEST_CASE("a greedy tenant's small calls delay others by the horizon at most") {
  for (const bool one_workflow : {false, true}) {
    const auto served_at = [one_workflow](const std::string& spec) {
      AnyWaitingQueue queue(*MakePolicy(spec));
      std::uint64_t id = 0;
      const auto push = [&](double output, std::uint64_t tenant, double now) {
        Request r = testing::Prompt(++id, 1);
        r.output_tokens = Estimate::Exact(output);
        r.tenant = {tenant};
        r.deadline = At(now + (tenant == 1 ? 0.001 : 60));
        if (one_workflow && tenant == 1) r.workflow = {1}, r.workflow_arrival = At(0), r.after = {1, 1, 40, 1, 40};
        queue.Push(r, At(now));
        return r.id;
      };
      // Ended calls show that sizes differ: every 20th took a second.
      for (int i = 0; i < 400; ++i) {
        const RequestId ended = push(i % 20 == 0 ? 1000 : 40, 9, 0);
        const AnyWaitingQueue::Ran ran = {ended, {1}, {i % 20 == 0 ? 1000 : 40}};
        queue.End(std::span(&ran, 1), At(0));
        queue.Erase(ended);
      }
      RequestId own;
      int busy_until = 0;  // in ticks of 0.02 s
      for (int tick = 0; tick < 30'000; ++tick) {
        const double now = 0.02 * tick;
        push(40, 1, now);  // 0.04 s of work every 0.02 s, due at once
        if (tick == 1000) own = push(5000, 7, now);
        while (busy_until <= tick) {
          queue.Begin(At(now));
          if (queue.empty()) break;
          const AnyWaitingQueue::Ran ran = {queue.Top(), {1}, {40}};
          queue.End(std::span(&ran, 1), At(now));
          if (ran.request == own) return now;
          busy_until = std::max(busy_until, tick) + 2;
          queue.Erase(ran.request);
        }
      }
      return std::numeric_limits<double>::infinity();
    };
    const std::string pace = "step_s=0,prefill_s=0,sequence_s=0.001,context_s=0";
    CAPTURE(one_workflow);
    CHECK(std::isinf(served_at("footprint(" + pace + ")")));
    // Small calls of separate workflows soon are the usual size and get no head start. The calls of one workflow still
    // get a head start.
    CHECK(std::isinf(served_at("boosted_footprint(" + pace + ",tail_factor=2,horizon_s=100000)")) == one_workflow);
    // 20 s of work are present, and each second of two horizons adds 2 s.
    for (const double horizon : {5.0, 20.0}) {
      const std::string spec =
          "boosted_footprint(" + pace + ",tail_factor=2,horizon_s=" + std::to_string(horizon) + ")";
      INFO(spec);
      CHECK(served_at(spec) <= 20 + 20 + 2 * 2 * horizon + 1);
    }
  }
}

TEST_CASE("a revision of a waiting request changes its cost, not its time") {
  auto policy = Experienced<BoostedFootprint>();
  RequestState r = Call(0, 1, 20);
  r.enqueued = r.request.arrival = r.request.workflow_arrival = At(9);
  policy.Enters(r, At(9));
  const double key = policy.Key(r).key;
  for (Slot slot = 1; slot < 80; ++slot) policy.Enters(Call(slot, 1, 900), At(10));
  policy.Enters(r, At(11));
  CHECK(policy.Key(r).key == key);
  r.request.output_tokens = Estimate::Exact(10);
  policy.Enters(r, At(12));
  CHECK(policy.Key(r).key < key);
  const double start = 9 - policy.Key(r).key, cut = Part(policy.Explain(r), "Cw_s");
  CHECK(start == Approx((9 - key) * std::log(cut / 0.01) / std::log(cut / 0.02)));
  r.enqueued = At(13);  // it was preempted and joins again
  policy.Enters(r, At(13));
  CHECK(9 - policy.Key(r).key > 3 * start);
}

TEST_CASE("idle workflows are kept for a while, in bounded number") {
  FootprintBook book = Book();
  for (std::int64_t i = 0; i < Scaled(200'000); ++i) {
    RequestState r = Call(0, 10, 5, static_cast<std::uint64_t>(i) + 1);
    book.Enters(r, At(0));
    r.generated = {5};
    book.Ends(r, At(0));
  }
  CHECK(book.records() <= FootprintBook::kLeastIdle + 2);
  // A workflow that continues in time is one work, not two.
  FootprintBook other = Book();
  for (std::uint64_t i = 0; i < 100; ++i) {
    for (int part = 0; part < 2; ++part) {
      RequestState r = Call(0, 10, 100, i + 1);
      other.Enters(r, At(static_cast<double>(i) + 5 * part));
      r.generated = {100};
      other.Ends(r, At(static_cast<double>(i) + 5 * part));
    }
  }
  RequestState two = Call(1, 10, 100);
  other.Enters(two, At(1000));
  CHECK(other.works().cut() == Approx(2 * other.Left(two)).epsilon(kWithin));
}

TEST_CASE("the default lets small requests pass larger ones from the start") {
  auto scheduler = *Scheduler::Create({.kv_blocks = {1000}}, *MakePolicy("boosted_footprint"));
  for (const std::uint64_t id : {1u, 2u, 3u, 4u}) {
    constexpr double kOutputs[] = {4000, 1000, 444, 20};
    Arrived arrival;
    arrival.request = {.id = {id}, .prompt_tokens = {100}, .output_tokens = Estimate::Exact(kOutputs[id - 1])};
    scheduler.On(arrival, {});
  }
  std::string order;
  for (int i = 0; i < 4; ++i) {
    const StepPlan& plan = scheduler.Plan({}, {.tokens = {100}, .max_seqs = 1});
    REQUIRE(plan.run.size() == 1);
    order += std::to_string(plan.run[0].request.value);
    const std::vector<RowResult> rows = {{plan.run[0].request, plan.run[0].lane, 1, 0, RowResult::kFinished}};
    scheduler.Commit({plan.id, rows}, {});
  }
  CHECK(order == "4321");
}

}  // namespace
}  // namespace takt
