// Learns means of a call's output and of the work left in its workflow, from facts that are known when the call begins.
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

// Online means for hosts that do not predict lengths.
//
// A call's expected output comes from four means over earlier calls. The first mean covers calls with a prompt length
// in the same octave. The second covers calls of the same agent and stage. The third covers calls that match in octave,
// agent and stage, and the fourth only such calls of the same tenant. Each mean is shrunk towards the previous mean,
// which has the weight of kPrior observations.
//
// The work left after a call [s] is learnt by agent, stage and number of earlier calls (octave). If call b follows call
// a, left(a) = cost(b) + kGoesOn left(b); 0 at the end of the workflow (temporal differences, Sutton 1988). An endless
// workflow thus has about 50 calls left.
//
// Memory is fixed: kCells means. A new mean replaces the one with the least count among kProbes. A mean covers about
// the last kWindow observations. Results are deterministic, and only the constructor allocates. Hashes have no seed,
// since results must not depend on one. Names chosen by clients can evict means but not slow down look-ups. Names are
// compared in full, so a name never reaches the mean of another.
class SeenLengths {
 public:
  static constexpr std::size_t kCells = 1024, kProbes = 4;
  static constexpr double kWindow = 256, kPrior = 8, kGoesOn = 0.98;
  static constexpr std::size_t kWords = 6 * kCells;  // number of words that Save returns

  SeenLengths() : cells_(kCells) {}

  // Returns the expected output of a call per sequence [tokens], given the mean over all calls.
  double Output(const Request& q, double mean) const {
    for (const Name& name : NamesOf(q)) mean = Drawn(name, mean);
    return mean;
  }
  void ObserveOutput(const Request& q, double tokens) {
    for (const Name& name : NamesOf(q)) Touch(name).Add(tokens);
  }

  enum Kind : std::uint64_t { kNone, kOctave, kClass, kClassOctave, kTenant, kLeft, kLeftWide };
  // The name of a mean. `octave`: octave of the prompt's tokens or of the number of calls.
  struct Name {
    std::uint64_t kind = kNone;
    std::uint64_t agent = 0, stage = 0, octave = 0, tenant = 0;
    friend bool operator==(const Name&, const Name&) = default;
  };

  // The class of a call for the work left after it, by the number of calls before it.
  struct Place {
    Name narrow = {}, wide = {};
    explicit operator bool() const { return wide.kind != kNone; }
  };
  static Place PlaceOf(const Request& q, std::int32_t calls_before) {
    const auto depth =
        static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint32_t>(std::max(calls_before, 0))));
    return {{kLeft, q.agent.value, q.stage.value, depth}, {kLeftWide, 0, 0, depth}};
  }
  // Returns the expected work after the call itself [s].
  double Left(const Place& place) const { return Drawn(place.narrow, Drawn(place.wide, 0, 1)); }
  // Adds an observation: the next call took `seconds` and has class `next`.
  void ObserveLeft(const Place& place, double seconds, const Place& next) {
    ObserveLeft(place, seconds + Rounded(kGoesOn * Left(next)));
  }
  void ObserveLeft(const Place& place, double seconds) {
    Touch(place.narrow).Add(seconds);
    Touch(place.wide).Add(seconds);
  }

  // Returns the learnt state as words that Load accepts on any machine. The format depends on kCells.
  std::vector<std::uint64_t> Save() const {
    std::vector<std::uint64_t> words;
    words.reserve(kWords);
    for (const Cell& c : cells_) {
      words.insert(words.end(), {c.name.kind << 8 | c.name.octave, c.name.agent, c.name.stage, c.name.tenant,
                                 std::bit_cast<std::uint64_t>(c.count), std::bit_cast<std::uint64_t>(c.sum)});
    }
    return words;
  }
  // Returns false and changes nothing if the words are invalid.
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
  static constexpr double kMostMean = 1e12;  // largest mean that Load accepts

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

  // Returns the first cell that may hold the name.
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
