// Admits requests to instances by reserved tokens; other requests stay in the router's queue.
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

// Reserves the prompt and a quantile of the agent's outputs for each placed request, from placement to its end. An
// instance is available if
//
//  reserved + prompt + output(agent, quantile) <= share * KV cache   [tokens]
//
// and at most `waiting` of its requests have not begun (RequestStarted). The available instance with the smallest
// reserved share gets the request. If none is available, the request stays in the router's queue, which is ordered by
// rank.
// An instance without requests is always available. If an instance's KV cache is unknown, all requests fit, and the one
// with the fewest reserved tokens is chosen.
//
// The quantile is taken from the agent's last kWindow successful outputs, as reported in RequestEnded::served. For a
// new agent it comes from Request::output_tokens. If that is unknown, it comes from the last kWindow outputs of all
// agents; without any, it is `unknown`. At most kMost agents are remembered; those silent longest are forgotten.
//
// Source: none; takt's own. Kairos, section 6, reserves by time slots (time_slot_packer). A decision costs O(1) per
// instance. The end of a request costs O(kWindow).
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
    visit("quantile", self.quantile, OptionText{"", "reserved quantile of an agent's outputs", 0, 1});
    visit("share", self.share, OptionText{"", "maximum reserved share of the KV cache", 0.01, 100});
    visit("waiting", self.waiting, OptionText{"requests", "maximum placed requests that have not begun", 0, 1'000'000});
    visit("unknown", self.unknown, OptionText{"tokens", "output without any prediction", 0, 1e9});
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
    return kv > 0 ? -reserved / kv : -reserved * kUnknownKvShare;
  }

  void Placed(const RequestState& r, const InstanceState& i, TimePoint) { work_.Placed(r.slot, i.slot, TokensOf(r)); }
  void Started(const RequestState& r, const InstanceState&, TimePoint) { work_.Started(r.slot); }
  void Released(const RequestState& r, const InstanceState&, TimePoint) {
    work_.Released(r.slot);
    if (r.request.id == well_ && r.generated.value > 0) Learn(r.request.agent, r.generated.value);
    well_ = {};
  }

  // Returns the tokens to reserve for a request placed now.
  std::int64_t TokensOf(const RequestState& r) const {
    return r.request.prompt_tokens.value + static_cast<std::int64_t>(std::clamp(OutputOf(r), 0.0, kMostTokens) + 0.5);
  }
  std::int64_t Reserved(std::uint32_t instance) const { return work_.outstanding(instance); }
  std::size_t agents() const { return agents_.size(); }

 private:
  static constexpr double kMostTokens = 1e9;
  static constexpr double kUnknownKvShare = 1e-6;  // assumed share of the cache per token if its size is unknown

  // The last output lengths of an agent, and a quantile of these.
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
  double needed_ = 0;  // tokens to reserve for the current request
  RequestId well_;  // the request that is ending, if its output was reported
  IdTable<AgentId, Agent> agents_;
  AgeList by_age_;
  Outputs all_;
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_TOKEN_RESERVATION_H_
