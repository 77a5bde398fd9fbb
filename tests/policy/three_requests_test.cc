// LAMPS, section 3.1: three requests that call tools. The engine runs one at a time and has memory for six tokens. The
// test plays it step by step through the waiting queue.
//
// The paper does not define the engine. These rules give its averages. A token takes a unit of time and of memory, and
// prompts cost nothing. Dropped KV is gone when the tool starts. It is recomputed before anything else, a token a unit.
// Swaps take no time. A request may run if the KV of all others and its own at its next stop fit together. A better
// request displaces a running one between two tokens.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "takt/policy/any_policy.h"
#include "takt/policy/memory_integral.h"
#include "takt/policy/sjf.h"
#include "takt/queue/waiting_queue.h"

namespace takt {
namespace {

struct Example {
  int length, call_after, call_units;
  KvAction at_call;
};
constexpr std::array<Example, 3> kThree = {
    {{6, 5, 2, KvAction::kKeep}, {2, 1, 7, KvAction::kDrop}, {3, 2, 1, KvAction::kOut}}};
constexpr int kMemory = 6;

RequestId IdOf(std::size_t i) { return {i + 1}; }
std::size_t IndexOf(RequestId id) { return id.value - 1; }
TimePoint At(int unit) { return TimePoint(FromSeconds(unit)); }

RequestState StateOf(std::size_t i, int beside) {
  const Example& e = kThree[i];
  RequestState r;
  r.request = {.id = IdOf(i), .output_tokens = Estimate::Exact(e.length)};
  r.request.next_call = {.after = {e.call_after}, .duration = FromSeconds(e.call_units)};
  r.at_call = e.at_call;
  r.beside = beside;
  return r;
}

// The published order is given once, before any request runs.
struct Given {
  std::array<double, 3> keys;
  RankKey Key(const RequestState& r) const { return {keys[IndexOf(r.request.id)]}; }
};

// `stall`: the weight of the five other tokens.
Given IntegralOf(double stall) {
  const MemoryIntegral integral{.pace = {.decode_s = 1, .forward_s = 1, .swap_s = 0}, .stall = stall};
  Given given{};
  for (std::size_t i = 0; i < kThree.size(); ++i) given.keys[i] = integral.Key(StateOf(i, 5)).key;
  return given;
}

struct Played {
  std::string runs;  // the running request in each unit of time; "-": none
  double mean_end = 0;
};

// Length estimate of a request when it joins the queue: the key of sjf.
enum class Predicts { kWhole, kLeft, kWithCall };

class Play {
 public:
  Play(AnyPolicy policy, Predicts predicts) : queue_(std::move(policy)), predicts_(predicts) {}

  Played Run() {
    for (std::size_t i = 0; i < kThree.size(); ++i) {
      queue_.Push({.id = IdOf(i), .prompt_tokens = {1}, .output_tokens = EstimateOf(i)}, At(0));
    }
    Played played;
    for (int now = 0; ended_ < kThree.size() && now < 100; ++now) {
      Answer(now);
      queue_.Begin(At(now));
      while (queue_.Top() && !Fits(IndexOf(queue_.Top()))) queue_.Take(queue_.Top());
      const RequestId first = queue_.Top();
      played.runs += first ? static_cast<char>('0' + first.value) : '-';
      const AnyWaitingQueue::Ran ran[] = {{first}};
      queue_.End(std::span(ran, first ? 1 : 0), At(now));
      if (first && Token(IndexOf(first), now + 1)) played.mean_end += (now + 1) / 3.0;
    }
    return played;
  }

 private:
  struct State {
    int generated = 0, to_recompute = 0, memory = 0;
    int back_at = -1;  // time of the tool's return; -1: not in a call
    bool called = false;
  };

  Estimate EstimateOf(std::size_t i) const {
    const Example& e = kThree[i];
    const State& s = states_[i];
    return Estimate::Exact(predicts_ == Predicts::kWithCall ? e.length + e.call_units
                           : predicts_ == Predicts::kLeft   ? e.length - s.generated + s.to_recompute
                                                            : e.length);
  }

  int NextStop(std::size_t i) const { return states_[i].called ? kThree[i].length : kThree[i].call_after; }

  bool Fits(std::size_t i) const {
    int held = NextStop(i);
    for (std::size_t j = 0; j < states_.size(); ++j) held += j == i ? 0 : states_[j].memory;
    return held <= kMemory;
  }

  void Answer(int now) {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      State& s = states_[i];
      if (s.back_at != now) continue;
      s.back_at = -1;
      s.to_recompute = kThree[i].at_call == KvAction::kDrop ? kThree[i].call_after : 0;
      queue_.Revise({.request = IdOf(i), .output_tokens = EstimateOf(i)}, At(now));
      queue_.Requeue(IdOf(i), At(now));
    }
  }

  // Runs a unit of request i, which ends at `now`. Returns true if the request ends.
  bool Token(std::size_t i, int now) {
    State& s = states_[i];
    if (s.called && kThree[i].at_call == KvAction::kOut) s.memory = std::max(s.memory, kThree[i].call_after);
    ++s.memory;
    if (s.to_recompute > 0) {
      --s.to_recompute;
    } else if (++s.generated == kThree[i].length) {
      s.memory = 0;
      ++ended_;
      queue_.Erase(IdOf(i));
      return true;
    } else if (s.generated == kThree[i].call_after && !s.called) {
      s.called = true;
      s.back_at = now + kThree[i].call_units;
      if (kThree[i].at_call != KvAction::kKeep) s.memory = 0;
      queue_.Pause({.request = IdOf(i)}, At(now));
      return false;
    }
    queue_.Revise({.request = IdOf(i), .output_tokens = EstimateOf(i)}, At(now));
    queue_.Requeue(IdOf(i), At(now));
    return false;
  }

  AnyWaitingQueue queue_;
  Predicts predicts_;
  std::array<State, 3> states_;
  std::size_t ended_ = 0;
};

TEST_CASE("three requests that call tools run as in the paper") {
  const Played fcfs = Play(Fcfs{}, Predicts::kWhole).Run();
  CHECK(fcfs.runs == "111112-133-3-22");
  CHECK(fcfs.mean_end == Approx(35.0 / 3));

  const Played sjf = Play(Sjf{}, Predicts::kLeft).Run();
  CHECK(sjf.runs == "233131111--122");
  CHECK(sjf.mean_end == Approx(31.0 / 3));

  const Played with_calls = Play(Sjf{}, Predicts::kWithCall).Run();
  CHECK(with_calls.runs == "331311112-1-----22");
  CHECK(with_calls.mean_end == Approx(11));

  const Played lamps = Play(IntegralOf(1), Predicts::kWhole).Run();
  CHECK(lamps.runs == "332311111--122");
  CHECK(lamps.mean_end == Approx(10));
}

TEST_CASE("the order of the plain integral serves the three sooner") {
  const Played plain = Play(IntegralOf(0), Predicts::kWhole).Run();
  CHECK(plain.runs == "23313111221--1");
  CHECK(plain.mean_end == Approx(29.0 / 3));
}

}  // namespace
}  // namespace takt
