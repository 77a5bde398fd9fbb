// What calls have generated and what their workflows still had to do, by what is seen when a call begins.
#ifndef TAKT_POLICY_SEEN_LENGTHS_H_
#define TAKT_POLICY_SEEN_LENGTHS_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "takt/base/exact_math.h"
#include "takt/base/random.h"
#include "takt/base/rounded.h"
#include "takt/model/request.h"

namespace takt {

// Means learnt online, for hosts that tell no estimates. A call's output is expected from that of calls with a prompt
// of like length (octaves), of calls of the same agent and stage, of those with both, and of those of the same tenant
// besides: each mean is drawn to the one before it by kPrior pseudo-observations, so that a new class begins where the
// wider one is. What a workflow has left after a call, in seconds of the engine, is learnt by agent, stage and the
// number of calls before (octaves), from one call to the next: left(a) = cost(b) + kGoesOn left(b), as b follows a, and
// zero where the workflow ended (temporal differences, Sutton 1988): one that never ends has some fifty calls left.
//
// Of fixed size: kCells means; a new one takes the place of the lightest of kProbes. A mean forgets beyond kWindow
// observations. Deterministic, and allocates only where it is made. The hashes have no key, since what is told must not
// depend on one: names that strangers choose can push means out, and cost no more time than others.
class SeenLengths {
 public:
  static constexpr std::size_t kCells = 1024, kProbes = 4;
  static constexpr double kWindow = 256, kPrior = 8, kGoesOn = 0.98;
  static constexpr std::size_t kWords = 3 * kCells;  // of Save

  SeenLengths() : cells_(kCells) {}

  // Output of a call per sequence [tokens], where that of all calls is `mean`.
  double Output(const Request& q, double mean) const {
    for (const std::uint64_t key : KeysOf(q)) mean = Drawn(key, mean);
    return mean;
  }
  void ObserveOutput(const Request& q, double tokens) {
    for (const std::uint64_t key : KeysOf(q)) Touch(key).Add(tokens);
  }

  // Of which call of its workflow, counted from zero, it is told what is left after it.
  struct Place {
    std::uint64_t narrow = 0, wide = 0;  // keys
    explicit operator bool() const { return wide != 0; }
  };
  static Place PlaceOf(const Request& q, std::int32_t calls_before) {
    const auto depth =
        static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint32_t>(std::max(calls_before, 0))));
    return {KeyOf(kLeft, q.agent.value, q.stage.value, depth), KeyOf(kLeftWide, depth, 0, 0)};
  }
  // Seconds of the engine after the call itself.
  double Left(const Place& place) const { return Drawn(place.narrow, Drawn(place.wide, 0, 1)); }
  // After it came a call that took so long, which is at `next`.
  void ObserveLeft(const Place& place, double seconds, const Place& next) {
    ObserveLeft(place, seconds + Rounded(kGoesOn * Left(next)));
  }
  void ObserveLeft(const Place& place, double seconds) {
    Touch(place.narrow).Add(seconds);
    Touch(place.wide).Add(seconds);
  }

  // All that was learnt, as words that Load takes on any machine; kCells is of their format.
  std::vector<std::uint64_t> Save() const {
    std::vector<std::uint64_t> words;
    words.reserve(kWords);
    for (const Cell& c : cells_) {
      words.insert(words.end(), {c.key, std::bit_cast<std::uint64_t>(c.count), std::bit_cast<std::uint64_t>(c.sum)});
    }
    return words;
  }
  // False, and nothing has changed, where they are no such words.
  bool Load(std::span<const std::uint64_t> words) {
    if (words.size() != kWords) return false;
    std::vector<Cell> cells(kCells);
    for (std::size_t i = 0; i < kCells; ++i) {
      Cell& c = cells[i];
      c = {words[3 * i], std::bit_cast<double>(words[3 * i + 1]), std::bit_cast<double>(words[3 * i + 2])};
      if (!c.Sound() || (c.count > 0 && c.key % 2 == 0)) return false;  // no key is even
    }
    cells_ = std::move(cells);
    return true;
  }

 private:
  static constexpr double kMostMean = 1e12;  // that is believed of words

  enum Kind : std::uint64_t { kOctave = 1, kClass, kClassOctave, kTenant, kLeft, kLeftWide };

  struct Cell {
    std::uint64_t key = 0;
    double count = 0, sum = 0;

    void Add(double x) {
      if (count > kWindow - 1) count /= 2, sum /= 2;
      ++count, sum += x;
    }
    bool Sound() const { return count >= 0 && count <= kWindow && sum >= 0 && sum <= kMostMean * count; }
  };

  double Drawn(std::uint64_t key, double to, double prior = kPrior) const {
    const Cell* c = Find(key);
    return c == nullptr ? to : (c->sum + Rounded(prior * to)) / (c->count + prior);
  }

  static std::uint64_t KeyOf(std::uint64_t kind, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    return Mix64(Mix64(a) + kind * 0x9e3779b97f4a7c15u + b * 0xbf58476d1ce4e5b9u + c * 0x94d049bb133111ebu) | 1;
  }
  static std::array<std::uint64_t, 4> KeysOf(const Request& q) {
    const auto octave =
        static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint32_t>(std::max(q.prompt_tokens.value, 0))));
    const std::uint64_t a = q.agent.value, s = q.stage.value;
    return {KeyOf(kOctave, octave, 0, 0), KeyOf(kClass, a, s, 0), KeyOf(kClassOctave, a, s, octave),
            KeyOf(kTenant, a, s, Mix64(q.tenant.value) ^ octave)};
  }

  const Cell* Find(std::uint64_t key) const {
    for (std::size_t i = 0; i < kProbes; ++i) {
      const Cell& c = cells_[((key >> 32) + i) % kCells];
      if (c.key == key) return &c;
    }
    return nullptr;
  }
  Cell& Touch(std::uint64_t key) {
    Cell* lightest = nullptr;
    for (std::size_t i = 0; i < kProbes; ++i) {
      Cell& c = cells_[((key >> 32) + i) % kCells];
      if (c.key == key) return c;
      if (lightest == nullptr || c.count < lightest->count) lightest = &c;
    }
    *lightest = {};
    lightest->key = key;
    return *lightest;
  }

  std::vector<Cell> cells_;
};

}  // namespace takt

#endif  // TAKT_POLICY_SEEN_LENGTHS_H_
