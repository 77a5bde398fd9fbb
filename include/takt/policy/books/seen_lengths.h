// What calls have generated and what their workflows still had to do, by what is seen when a call begins.
#ifndef TAKT_POLICY_BOOKS_SEEN_LENGTHS_H_
#define TAKT_POLICY_BOOKS_SEEN_LENGTHS_H_

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
// depend on one: names that strangers choose can push means out, and cost no more time than others. Names are compared
// in full: no name reaches the mean of another.
class SeenLengths {
 public:
  static constexpr std::size_t kCells = 1024, kProbes = 4;
  static constexpr double kWindow = 256, kPrior = 8, kGoesOn = 0.98;
  static constexpr std::size_t kWords = 6 * kCells;  // of Save

  SeenLengths() : cells_(kCells) {}

  // Output of a call per sequence [tokens], where that of all calls is `mean`.
  double Output(const Request& q, double mean) const {
    for (const Name& name : NamesOf(q)) mean = Drawn(name, mean);
    return mean;
  }
  void ObserveOutput(const Request& q, double tokens) {
    for (const Name& name : NamesOf(q)) Touch(name).Add(tokens);
  }

  enum Kind : std::uint64_t { kNone, kOctave, kClass, kClassOctave, kTenant, kLeft, kLeftWide };
  // Of a mean; an octave of prompts or of calls.
  struct Name {
    std::uint64_t kind = kNone;
    std::uint64_t agent = 0, stage = 0, octave = 0, tenant = 0;
    friend bool operator==(const Name&, const Name&) = default;
  };

  // Of which call of its workflow, counted from zero, it is told what is left after it.
  struct Place {
    Name narrow = {}, wide = {};
    explicit operator bool() const { return wide.kind != kNone; }
  };
  static Place PlaceOf(const Request& q, std::int32_t calls_before) {
    const auto depth =
        static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint32_t>(std::max(calls_before, 0))));
    return {{kLeft, q.agent.value, q.stage.value, depth}, {kLeftWide, 0, 0, depth}};
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
      words.insert(words.end(), {c.name.kind << 8 | c.name.octave, c.name.agent, c.name.stage, c.name.tenant,
                                 std::bit_cast<std::uint64_t>(c.count), std::bit_cast<std::uint64_t>(c.sum)});
    }
    return words;
  }
  // False, and nothing has changed, where they are no such words.
  bool Load(std::span<const std::uint64_t> words) {
    if (words.size() != kWords) return false;
    std::vector<Cell> cells(kCells);
    for (std::size_t i = 0; i < kCells; ++i) {
      Cell& c = cells[i];
      const std::span<const std::uint64_t> w = words.subspan(6 * i, 6);
      c = {{w[0] >> 8, w[1], w[2], w[0] & 0xff, w[3]}, std::bit_cast<double>(w[4]), std::bit_cast<double>(w[5])};
      if (!c.Sound()) return false;
    }
    cells_ = std::move(cells);
    return true;
  }

 private:
  static constexpr double kMostMean = 1e12;  // that is believed of words

  struct Cell {
    Name name = {};
    double count = 0, sum = 0;

    void Add(double x) {
      if (count > kWindow - 1) count /= 2, sum /= 2;
      ++count, sum += x;
    }
    bool Sound() const {
      if (name.kind > kLeftWide || (name.kind == kNone) != (count == 0)) return false;
      return count >= 0 && count <= kWindow && sum >= 0 && sum <= kMostMean * count;
    }
  };

  double Drawn(const Name& name, double to, double prior = kPrior) const {
    const Cell* c = Find(name);
    return c == nullptr ? to : (c->sum + Rounded(prior * to)) / (c->count + prior);
  }

  static std::array<Name, 4> NamesOf(const Request& q) {
    const auto octave =
        static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint32_t>(std::max(q.prompt_tokens.value, 0))));
    const std::uint64_t a = q.agent.value, s = q.stage.value;
    return {{{kOctave, 0, 0, octave},
             {kClass, a, s},
             {kClassOctave, a, s, octave},
             {kTenant, a, s, octave, q.tenant.value}}};
  }

  // The first of the cells that the name may have.
  static std::size_t FirstOf(const Name& name) {
    return Mix64((name.kind << 8 | name.octave) + name.agent * 0x9e3779b97f4a7c15u + name.stage * 0xbf58476d1ce4e5b9u +
                 name.tenant * 0x94d049bb133111ebu) %
           kCells;
  }
  const Cell* Find(const Name& name) const {
    for (std::size_t i = 0, first = FirstOf(name); i < kProbes; ++i) {
      const Cell& c = cells_[(first + i) % kCells];
      if (c.name == name) return &c;
    }
    return nullptr;
  }
  Cell& Touch(const Name& name) {
    Cell* lightest = nullptr;
    for (std::size_t i = 0, first = FirstOf(name); i < kProbes; ++i) {
      Cell& c = cells_[(first + i) % kCells];
      if (c.name == name) return c;
      if (lightest == nullptr || c.count < lightest->count) lightest = &c;
    }
    *lightest = {name};
    return *lightest;
  }

  std::vector<Cell> cells_;
};

}  // namespace takt

#endif  // TAKT_POLICY_BOOKS_SEEN_LENGTHS_H_
