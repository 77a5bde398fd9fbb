// The footprint of a workflow, by hand and against a recount, and the orders that use it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "scheduler/host.h"
#include "takt/base/random.h"
#include "takt/policy/footprint.h"
#include "takt/policy/books/footprint_book.h"
#include "takt/policy/registry.h"
#include "takt/policy/books/seen_lengths.h"
#include "takt/policy/books/predicted_lengths.h"

namespace takt {
namespace {

constexpr StepPace kPace{.step_s = 1e-2, .prefill_s = 1e-4, .sequence_s = 1e-5, .context_s = 1e-8};

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

TEST_CASE("a footprint adds this call and the work after it") {
  FootprintBook book = Book();
  RequestState r = Call(0, 100, 50);
  r.request.after = {1, 200, 30, 9000, 30};
  book.Enters(r, At(0));
  const double kv_steps = 50 * (100 + 50 / 2.0) + 9000;
  const double step = 1e-2 / 3 * (380 / 1000.0 + 80 / 100.0 + kv_steps / 10'000);
  CHECK(book.Left(r) == Approx(1e-4 * 300 + 1e-5 * 80 + 1e-8 * kv_steps + step));
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
  AnyPolicy taught = *MakePolicy("aged(footprint)"), other = *MakePolicy("footprint");
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

TEST_CASE("16 times the largest ended workflow of late bounds the size of a living one") {
  FootprintBook book = Book();
  RequestState absurd = Call(2, 100, 1e15);
  absurd.request.after = {1e18, 1e18, 1e15, 1e18, 1e18};
  for (int i = 0; i < LargestWork::kEnough; ++i) {
    CHECK(book.most() == 100);  // until enough have ended
    book.Enters(absurd, At(i));
    book.Ends(absurd, At(i));  // cancelled before it ran: it does not count
    Run(book, Call(0, 100, 50), i);
  }
  const RequestState sane = Call(1, 100, 50);
  book.Enters(sane, At(100));
  CHECK(book.most() == Approx(16 * book.Left(sane)).epsilon(0.02));
  Run(book, Call(0, 100, 5000), 101);
  const double large = book.most();
  CHECK(large > 50 * book.Left(sane) * 16);
  for (int i = 0; i < 20'000; ++i) Run(book, Call(0, 100, 50), 102 + i);
  CHECK(book.most() == Approx(16 * book.Left(sane)).epsilon(0.02));
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

// ---- orders -----------------------------------------------------------------------------------------------------

TEST_CASE("footprint ranks the least work first") {
  Footprint policy;
  policy.set_pace({.step_s = 0, .prefill_s = 0, .sequence_s = 1e-3, .context_s = 0});
  policy.PlanEnds(Pressure(WaitsFor::kNothing), At(0));
  const RequestState small = Call(0, 1, 20), large = Call(1, 1, 300);
  policy.Enters(large, At(0)), policy.Enters(small, At(1));
  CHECK(policy.Key(small).key == Approx(0.02));
  CHECK(policy.Key(large).key == Approx(0.3));
}

// Twenty workflows have ended that were given `seconds`.
FootprintBook Dated(double seconds) {
  FootprintBook book = Book();
  for (int i = 0; i < 20; ++i) {
    RequestState r = Call(0, 100, 50);
    r.request.deadline = At(seconds);
    Run(book, r, 0);
  }
  return book;
}

RequestState Due(double seconds, Slot slot = 30) {
  RequestState r = Call(slot, 100, 50);
  r.request.deadline = At(seconds);
  return r;
}

double Tightness(FootprintBook& book, const RequestState& r) {
  book.Enters(r, At(0));
  return book.Tightness(r);
}

TEST_CASE("a deadline counts relative to the usual time that workflows are given") {
  struct Case {
    double seconds, tightness;
  };
  // the last: expired
  for (const Case& c : {Case{20, 0}, {10, 0.5}, {1, 0.95}, {30, 0}, {1e8, 0}, {0, 0}, {-1e6, 0}}) {
    FootprintBook book = Dated(20);
    INFO(c.seconds);
    CHECK(Tightness(book, Due(c.seconds)) == Approx(c.tightness).margin(1e-6));
  }
  FootprintBook book = Dated(20), fresh = Book();
  RequestState r = Due(10);
  r.request.compute = FromSeconds(1);  // the call's own deadline, from a router
  CHECK(Tightness(book, r) == 0);
  CHECK(Tightness(book, Call(31, 100, 50)) == 0);
  CHECK(Tightness(fresh, Due(10)) == 0);  // the time given is not known for any workflow
}

// This holds even if each call of a conversation has a deadline of its own.
TEST_CASE("a workflow's first call sets the time that it is given") {
  FootprintBook book = Dated(20);
  RequestState first = Due(10);
  first.request.workflow = {7};
  CHECK(Tightness(book, first) == Approx(0.5));
  RequestState later = Due(1000, 31);
  later.request.workflow = {7};
  later.request.arrival = At(990);
  book.Enters(later, At(990));
  CHECK(book.Tightness(later) == Approx(0.5));
}

TEST_CASE("absurd deadlines and decoys hardly change the usual time; ended workflows do") {
  for (const double absurd : {1e-9, 1e9}) {
    FootprintBook book = Dated(20);
    Run(book, Due(absurd, 40), 0);
    for (int i = 0; i < 500; ++i) {  // cancelled before their first run
      book.Enters(Due(absurd, 41), At(0));
      book.Ends(Due(absurd, 41), At(0));
    }
    CHECK(Tightness(book, Due(20, 42)) < 0.15);
    for (int i = 0; i < 5000; ++i) Run(book, Due(100, 43), 0);
    CHECK(Tightness(book, Due(20, 44)) == Approx(0.8).margin(0.01));
  }
}

TEST_CASE("with hopeless_last a request is last once it misses its deadline") {
  auto policy = *MakePolicy("footprint(hopeless_last=true,step_s=0.01,context_s=0,prefill_s=0)");
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

// The keys of a policy that saw many revisions are those of a fresh one that gets the same facts.
TEST_CASE("with hopeless_last, revised deadlines, returns and reused slots leave no trace") {
  const char* spec = "footprint(hopeless_last=true,learn=false,step_s=0.01,context_s=0,prefill_s=0)";
  AnyPolicy policy = *MakePolicy(spec);
  Random random(3);
  std::vector<RequestState> states(8);
  for (std::int64_t i = 0; i < Scaled(20'000); ++i) {
    const TimePoint now = At(0.01 * static_cast<double>(i));
    RequestState& r = states[random.Below(states.size())];
    if (r.request.id.value == 0 || random.Chance(0.2)) {
      if (r.request.id.value != 0) policy.Ends(r, now);
      r = Call(static_cast<Slot>(&r - states.data()), 10, static_cast<double>(1 + random.Below(100)));
    }
    constexpr double kGiven[] = {-1, 0, 0.3, 1e9};
    r.request.deadline = random.Chance(0.3) ? kNever : After(now, FromSeconds(kGiven[random.Below(4)]));
    policy.Enters(r, now);
    AnyPolicy fresh = *MakePolicy(spec);
    fresh.Enters(r, now);
    CHECK(policy.Key(r).key == fresh.Key(r).key);
    CHECK(policy.ChangesAt(r) == fresh.ChangesAt(r));
    if (policy.ChangesAt(r) != kNever) {
      CHECK(policy.ChangesAt(r) > now);
      if (random.Chance(0.5)) policy.Change(r, policy.ChangesAt(r));
    }
  }
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
  CHECK(other.most() == Approx(16 * 2 * other.Left(two)).epsilon(0.1));
}

}  // namespace
}  // namespace takt
