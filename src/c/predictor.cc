// Predictors for calls and tools, for the C interface.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "c/events.h"
#include "c/handle.h"
#include "c/memory.h"
#include "takt/learning/call_predictor.h"
#include "takt/learning/tool_profile.h"

struct takt_predictor : takt::c::Handle {
  static constexpr takt::c::Kind kKind = takt::c::Kind::kPredictor;

  explicit takt_predictor(std::shared_ptr<const takt::CallPredictor> learnt)
      : Handle(kKind), predictor(std::move(learnt)) {}
  void End() { predictor.reset(), calls = {}, forecasts = {}, scratch = {}; }

  std::shared_ptr<const takt::CallPredictor> predictor;
  std::vector<takt::CallDescription> calls;
  std::vector<takt::CallForecast> forecasts;
  takt::CallPredictor::Scratch scratch;
};

struct takt_tool_profile : takt::c::Handle {
  static constexpr takt::c::Kind kKind = takt::c::Kind::kToolProfile;

  explicit takt_tool_profile(const takt::ToolProfileOptions& options) : Handle(kKind) { profile.emplace(options); }
  void End() { profile.reset(); }

  std::optional<takt::ToolProfile> profile;
};

namespace takt::c {

template <>
takt_call Defaults<takt_call>() {
  auto to = Zeroed<takt_call>();
  to.prompt_tokens = to.system_tokens = to.user_tokens = to.generated = -1;
  return to;
}
template <>
takt_tool_profile_options Defaults<takt_tool_profile_options>() {
  const ToolProfileOptions plain;
  auto to = Zeroed<takt_tool_profile_options>();
  to.max_classes = plain.max_classes, to.window = plain.window, to.seed_weight = plain.seed_weight;
  to.max_seconds = plain.max_seconds, to.hash_seed = plain.hash_seed;
  return to;
}
template <>
takt_tool_expectation Defaults<takt_tool_expectation>() {
  auto to = Zeroed<takt_tool_expectation>();
  to.seconds = to.returned_tokens = to.tokens_before = Of(Estimate{});
  return to;
}

namespace {

takt_status SoundToPredict(const takt_call* call) {
  if (const takt_status status = Readable(call); status != TAKT_OK) return status;
  takt_call local;
  const takt_call& c = Whole(call, local);
  return FirstOf(Meant(c.reserved == 0), Given(c.text, c.n_text));
}

CallDescription DescriptionOf(const takt_call* from) {
  takt_call local;
  const takt_call& c = Whole(from, local);
  const auto name = [](const char* text) { return text == nullptr ? std::string_view() : std::string_view(text); };
  return {.model = name(c.model),
          .kind = name(c.kind),
          .stage = name(c.stage),
          .text = {c.text, c.n_text},
          .prompt_tokens = {c.prompt_tokens},
          .system_tokens = {c.system_tokens},
          .user_tokens = {c.user_tokens},
          .calls_before = c.calls_before,
          .tokens_before = {c.tokens_before},
          .generated = {c.generated}};
}

}  // namespace
}  // namespace takt::c

using namespace takt;
using namespace takt::c;

void takt_call_init(takt_call* call, size_t size) noexcept { Init(call, size); }

takt_status takt_predictor_create(const void* bytes, size_t n, takt_predictor** predictor, takt_error* error) noexcept {
  if (predictor == nullptr) return Say(error, TAKT_E_NULL, "predictor is NULL");
  *predictor = nullptr;
  if (Given(bytes, n) != TAKT_OK) return Say(error, TAKT_E_NULL, "bytes is NULL");
  return UnlessMemoryEnds(error, [&]() -> takt_status {
    auto loaded = CallPredictor::Load({static_cast<const char*>(bytes), n});
    if (!loaded.ok()) return Unreadable(error, loaded.status());
    *predictor = std::make_unique<takt_predictor>(*std::move(loaded)).release();
    return TAKT_OK;
  });
}

takt_status takt_predictor_destroy(takt_predictor* predictor) noexcept { return Destroy(predictor); }

const char* takt_predictor_model(const takt_predictor* predictor, size_t index) noexcept {
  if (Valid(predictor) != TAKT_OK) return nullptr;
  const std::span<const std::string> models = predictor->predictor->models();
  return index < models.size() ? models[index].c_str() : nullptr;
}

takt_status takt_predictor_predict(takt_predictor* predictor, const takt_call* calls, size_t n, size_t stride,
                                   takt_estimate* tokens_left, double* solved) noexcept {
  const takt_status status = FirstOf(Valid(predictor), GivenEach(calls, n, stride, SoundToPredict));
  if (status != TAKT_OK) return status;
  takt_predictor& p = *predictor;
  p.calls.resize(n), p.forecasts.resize(n);
  for (std::size_t i = 0; i < n; ++i) p.calls[i] = DescriptionOf(Nth(calls, stride, i));
  p.predictor->Predict(p.calls, p.forecasts, p.scratch);
  for (std::size_t i = 0; i < n; ++i) {
    if (tokens_left != nullptr) tokens_left[i] = Of(p.forecasts[i].tokens_left);
    if (solved != nullptr) solved[i] = p.forecasts[i].solved;
  }
  return TAKT_OK;
}

void takt_tool_profile_options_init(takt_tool_profile_options* options, size_t size) noexcept { Init(options, size); }
void takt_tool_expectation_init(takt_tool_expectation* expectation, size_t size) noexcept { Init(expectation, size); }

takt_status takt_tool_profile_create(const takt_tool_profile_options* options, takt_tool_profile** profile,
                                     takt_error* error) noexcept {
  if (profile == nullptr) return Say(error, TAKT_E_NULL, "profile is NULL");
  *profile = nullptr;
  if (const takt_status status = ReadableOptions(options, error); status != TAKT_OK) return status;
  takt_tool_profile_options local;
  const takt_tool_profile_options& o = Whole(options, local);
  return UnlessMemoryEnds(error, [&]() -> takt_status {
    if (o.window < 2) return Say(error, TAKT_E_INVALID, "window: is invalid; expected at least 2");
    if (o.seed_weight < 1 || o.seed_weight > o.window / 2) {
      return Say(error, TAKT_E_INVALID, "seed_weight: is invalid; expected 1 to window / 2");
    }
    if (!(o.max_seconds > 0 && std::isfinite(o.max_seconds))) {
      return Say(error, TAKT_E_INVALID, "max_seconds: is invalid; expected a finite number above 0");
    }
    *profile = std::make_unique<takt_tool_profile>(ToolProfileOptions{.max_classes = o.max_classes,
                                                                      .window = o.window,
                                                                      .seed_weight = o.seed_weight,
                                                                      .max_seconds = o.max_seconds,
                                                                      .hash_seed = o.hash_seed})
                   .release();
    return TAKT_OK;
  });
}

takt_status takt_tool_profile_destroy(takt_tool_profile* profile) noexcept { return Destroy(profile); }

takt_status takt_tool_profile_seed(takt_tool_profile* profile, uint64_t tool,
                                   const takt_tool_expectation* seed) noexcept {
  if (const takt_status status = FirstOf(Valid(profile), Readable(seed)); status != TAKT_OK) return status;
  takt_tool_expectation local;
  const takt_tool_expectation& s = Whole(seed, local);
  return Meant(profile->profile->Seed({tool}, {.seconds = s.seconds.mean,
                                               .seconds_spread = s.seconds_spread,
                                               .returned_tokens = s.returned_tokens.mean,
                                               .returned_spread = s.returned_spread,
                                               .tokens_before = s.tokens_before.mean,
                                               .before_spread = s.before_spread}));
}

takt_status takt_tool_profile_observe(takt_tool_profile* profile, const takt_tool_call* calls, size_t n,
                                      size_t* counted) noexcept {
  if (const takt_status status = FirstOf(Valid(profile), Given(calls, n)); status != TAKT_OK) return status;
  ToolProfile& p = *profile->profile;
  const std::int64_t before = p.stats().observed;
  for (const ToolObservation& call : std::span(FromC<ToolObservation>(calls), n)) p.Observe(call);
  WriteCount(static_cast<std::size_t>(p.stats().observed - before), counted);
  return TAKT_OK;
}

takt_status takt_tool_profile_expect(const takt_tool_profile* profile, uint64_t tool,
                                     takt_tool_expectation* expectation) noexcept {
  if (const takt_status status = FirstOf(Valid(profile), Writable(expectation)); status != TAKT_OK) return status;
  const ToolExpectation& known = profile->profile->Expect({tool});
  takt_tool_expectation to{};
  to.pooled = known.pooled ? 1 : 0;
  to.seconds = Of(known.seconds), to.returned_tokens = Of(known.returned_tokens);
  to.tokens_before = Of(known.tokens_before);
  to.seconds_spread = known.seconds_spread, to.returned_spread = known.returned_spread;
  to.before_spread = known.before_spread, to.observations = known.observations;
  Write(to, expectation);
  return TAKT_OK;
}
