#include "c/policy.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "c/events.h"
#include "c/handle.h"
#include "c/memory.h"
#include "takt/policy/registry.h"
#include "takt/rivals/rivals.h"
#include "takt/scheduler.h"

namespace takt::c {

template <>
takt_key Defaults<takt_key>() {
  return Zeroed<takt_key>();
}

HostKey::HostKey(const takt_key& key)
    : spec_("custom(" + std::string(key.name) + ")"), context_(key.context), ask_(key.key) {}

void HostKey::Enters(const RequestState& r, TimePoint) {
  if (r.slot >= keys_.size()) keys_.resize(r.slot + std::size_t{1});
  keys_[r.slot] = {r.request.id, Ask(r)};
}

double HostKey::Ask(const RequestState& r) const {
  takt_request request;
  Fill(r.request, request);
  auto state = Zeroed<takt_request_state>();
  state.has_run = r.has_run ? 1 : 0;
  state.request = &request;
  state.enqueued = Ns(r.enqueued);
  state.generated = r.generated.value, state.returned = r.returned.value, state.computed = r.computed.value;
  state.cached = r.cached.value, state.taken = r.taken ? 1 : 0, state.cut = r.cut ? 1 : 0;
  return ask_(context_, &state);
}

takt_status MakePolicy(const char* text, const takt_key* key, AnyPolicy& policy, takt_error* error) {
  RegisterRivals().IgnoreError();  // before any name is read, because every handle is made with a policy first
  AnyPolicy own;
  if (key != nullptr) {
    if (const takt_status status = Readable(key); status != TAKT_OK) {
      return Say(error, status, "key.struct_size: is invalid; expected a known size, and zeros in new fields");
    }
    takt_key local;
    const takt_key& whole = Whole(key, local);
    if (whole.reserved != 0) return NotReserved(error);
    if (whole.key == nullptr || whole.name == nullptr)
      return Say(error, TAKT_E_NULL, "key: name or key is NULL; expected both");
    const std::string_view name = whole.name;
    const auto may = [](char c) { return c == '_' || ('0' <= c && c <= '9') || ('a' <= (c | 32) && (c | 32) <= 'z'); };
    if (name.empty() || name.size() > 64 || !std::ranges::all_of(name, may)) {
      return Say(error, TAKT_E_INVALID, "key.name: is invalid; expected 1 to 64 letters, digits and _");
    }
    own = HostKey(whole);
  }
  if (text == nullptr) {
    policy = key != nullptr ? std::move(own) : DefaultPolicy<AnyPolicy>::Make();
    return TAKT_OK;
  }
  absl::StatusOr<AnyPolicy> made = takt::MakePolicy(text, {}, nullptr, key != nullptr ? &own : nullptr);
  if (!made.ok()) return Invalid(error, "policy: ", made.status());
  if (key != nullptr && made->spec().find(own.spec()) == std::string::npos) {
    return Say(error, TAKT_E_INVALID, "policy: is invalid with a key; expected custom or aged(custom)");
  }
  policy = *std::move(made);
  return TAKT_OK;
}

std::size_t ReadLearnt(const AnyPolicy& policy, std::uint64_t* numbers, std::size_t n) {
  std::size_t size = 0;
  UnlessMemoryEnds(nullptr, [&]() -> takt_status {
    const std::vector<std::uint64_t> learnt = policy.SaveLearnt();
    size = learnt.size();
    if (numbers != nullptr) std::copy_n(learnt.begin(), std::min(n, size), numbers);
    return TAKT_OK;
  });
  return size;
}

takt_status LoadLearnt(const std::uint64_t* numbers, std::size_t n, AnyPolicy& policy, takt_error* error) {
  if (numbers == nullptr && n > 0) return Say(error, TAKT_E_NULL, "numbers is NULL");
  if (policy.LoadLearnt({numbers, n})) return TAKT_OK;
  return Say(error, TAKT_E_INVALID, "numbers: are invalid; expected numbers that this policy has learned");
}

}  // namespace takt::c
