// Requests into instances by the tokens that are reserved for each; what is not let in stays in the router's queue.
#ifndef TAKT_PLACEMENT_TOKEN_RESERVATION_H_
#define TAKT_PLACEMENT_TOKEN_RESERVATION_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <variant>

#include "takt/base/age_list.h"
#include "takt/base/rounded.h"
#include "takt/base/slot_table.h"
#include "takt/base/spec.h"
#include "takt/numeric/quantile.h"
#include "takt/placement/placement_policy.h"
#include "takt/placement/books/work_in_flight.h"

namespace takt {

// Admission before the instances. For a request that is placed its prompt and a quantile of its agent's outputs are
// reserved, from its placement to its end, however long that takes. An instance is available where
//
//   reserved + prompt + output(agent, quantile) <= share * KV cache   [tokens]
//
// and at most `waiting` of the requests that were placed there have not begun (RequestStarted). Of the available the
// one with the smallest share reserved takes the request; where none is, it stays in the router's queue, where rank
// counts, and which knows later what to place first. An instance without requests is always available; where its KV
// cache is not told, everything fits, and requests go where fewest tokens are reserved.
//
// Learnt: the quantile of the last kWindow outputs of the agent's requests that have ended well, as
// RequestEnded::served tells them; of an agent without any, that of its estimate (Request::output_tokens); without one,
// that of the last kWindow of all agents; before there are any, `unknown`. Of more than kMost agents those that were
// silent longest are forgotten.
//
// Source: none; takt's own. Kairos, section 6, reserves by slots of time (time_slot_packer).
// A decision costs O(1) per instance; a request that ends O(kWindow).
class TokenReservation {
 public:
  static constexpr std::string_view kName = "token_reservation";
  static constexpr std::size_t kWindow = 64;
  static constexpr std::size_t kMost = 4096;

  double quantile = 0.35;
  double share = 1;
  std::int64_t waiting = 4;
  double unknown = 512;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("quantile", self.quantile, OptionText{"", "of an agent's outputs that is reserved", 0, 1});
    visit("share", self.share, OptionText{"", "of the KV cache that may be reserved", 0.01, 100});
    visit("waiting", self.waiting, OptionText{"requests", "that may have been placed and not begun", 0, 1'000'000});
    visit("unknown", self.unknown, OptionText{"tokens", "of output where nothing is known", 0, 1e9});
  }

  void KeyHashes(std::uint64_t seed) { agents_.KeyHashes(seed); }

  void Observe(const RouterEvent& event, TimePoint) {
    const auto* ended = std::get_if<RequestEnded>(&event);
    well_ = ended != nullptr && !ended->failed && ended->served ? ended->request : RequestId{};
  }

  void Prepare(const RequestState& r, TimePoint) { needed_ = static_cast<double>(TokensOf(r)); }

  double Score(const RequestState&, const InstanceState& i, TimePoint) const {
    const auto kv = static_cast<double>(i.instance.kv_tokens.value);
    const double reserved = static_cast<double>(work_.outstanding(i.slot)) + needed_;
    if (i.outstanding > 0) {
      if (work_.waiting_count(i.slot) > waiting) return -std::numeric_limits<double>::infinity();
      if (kv > 0 && reserved > Rounded(share * kv)) return -std::numeric_limits<double>::infinity();
    }
    return kv > 0 ? -reserved / kv : -reserved * kTokensUntold;
  }

  void Placed(const RequestState& r, const InstanceState& i, TimePoint) { work_.Placed(r.slot, i.slot, TokensOf(r)); }
  void Started(const RequestState& r, const InstanceState&, TimePoint) { work_.Started(r.slot); }
  void Released(const RequestState& r, const InstanceState&, TimePoint) {
    work_.Released(r.slot);
    if (r.request.id == well_ && r.generated.value > 0) Learn(r.request.agent, r.generated.value);
    well_ = {};
  }

  // Tokens reserved for a request that would be placed now.
  std::int64_t TokensOf(const RequestState& r) const {
    return r.request.prompt_tokens.value + static_cast<std::int64_t>(std::clamp(OutputOf(r), 0.0, kMostTokens) + 0.5);
  }
  std::int64_t Reserved(std::uint32_t instance) const { return work_.outstanding(instance); }
  std::size_t agents() const { return agents_.size(); }

 private:
  static constexpr double kMostTokens = 1e9;
  static constexpr double kTokensUntold = 1e-6;  // of a KV cache, where it is not told

  // The last outputs, and their quantile.
  struct Outputs {
    std::array<double, kWindow> last = {};
    std::size_t seen = 0;
    double value = 0;

    void Add(double tokens, double p) {
      last[seen++ % kWindow] = tokens;
      std::array<double, kWindow> sorted = last;
      value = Quantile(std::span(sorted).first(std::min(seen, kWindow)), p);
    }
  };
  struct Agent {
    AgentId id;
    Outputs outputs = {};
    AgeLink age = {};
  };

  double OutputOf(const RequestState& r) const {
    if (const Agent* agent = agents_.Get(r.request.agent)) return agent->outputs.value;
    if (r.request.output_tokens.known()) return r.request.output_tokens.Quantile(quantile);
    return all_.seen > 0 ? all_.value : unknown;
  }

  void Learn(AgentId id, std::int32_t tokens) {
    all_.Add(tokens, quantile);
    if (!id) return;
    Slot at = agents_.Find(id);
    if (at == kNoSlot) {
      if (agents_.size() >= kMost) {
        const Slot oldest = by_age_.oldest();
        by_age_.Remove(agents_, oldest);
        agents_.Erase(oldest, agents_[oldest].id);
      }
      at = agents_.Insert(id, Agent{id});
    } else {
      by_age_.Remove(agents_, at);
    }
    by_age_.Append(agents_, at);
    agents_[at].outputs.Add(tokens, quantile);
  }

  WorkInFlight work_;  // tokens
  double needed_ = 0;  // of the request at hand
  RequestId well_;  // the request that is just ending, whose output was told
  IdTable<AgentId, Agent> agents_;
  AgeList by_age_;
  Outputs all_;
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_TOKEN_RESERVATION_H_
