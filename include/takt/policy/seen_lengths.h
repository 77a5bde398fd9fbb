// What calls have generated and what their workflows still had to do, by what is seen when a call begins.
#ifndef TAKT_POLICY_SEEN_LENGTHS_H_
#define TAKT_POLICY_SEEN_LENGTHS_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "takt/base/random.h"
#include "takt/base/rounded.h"
#include "takt/model/request.h"

namespace takt {

// Means learnt online, for hosts that tell no estimates. A call's output is expected from all calls, from those with a
// prompt of like length (octaves), from those of the same agent and stage, from those with both, and from those of the
// same tenant besides: each mean is drawn to the one before it by kPrior pseudo-observations, so that a new class
// begins where the wider one is. What a workflow has left after a call, in seconds of the engine, is learnt by agent,
// stage and the number of calls before, from one call to the next: left(a) = cost(b) + left(b), as b follows a, and
// zero where the workflow ended (temporal differences, Sutton 1988). Of each tenant the ratio of what came to what was
// predicted is kept, so that one who predicts a tenth is taken for ten times that.
//
// Of fixed size: kCells means; a new one takes the place of the lightest of kProbes. A mean forgets beyond kWindow
// observations. Deterministic, and allocates only where it is made. The hashes have no key, since what is told must not
// depend on one: names that strangers choose can push means out, and cost no more time than others.
class SeenLengths {
 public:
  static constexpr std::size_t kCells = 1024, kProbes = 4;
  static constexpr double kWindow = 256, kPrior = 8;

  SeenLengths() : cells_(kCells) {}

  // Output of a call per sequence [tokens]; before any has ended, kGuess.
  double Output(const Request& q) const {
    constexpr double kGuess = 256;
    double mean = Drawn(all_, kGuess, 4);
    for (const std::uint64_t key : KeysOf(q)) mean = Drawn(key, mean);
    return mean;
  }
  void ObserveOutput(const Request& q, double tokens) {
    all_.Add(1, tokens);
    for (const std::uint64_t key : KeysOf(q)) Touch(key).Add(1, tokens);
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
  void ObserveLeft(const Place& place, double seconds) {
    Touch(place.narrow).Add(1, seconds);
    Touch(place.wide).Add(1, seconds);
  }

  // Actual over predicted cost of a tenant's workflows; 1 of those that are not known. kPriorFlows workflows as they
  // were predicted stand in for what has not been seen.
  double Truth(TenantId tenant) const {
    const Cell* c = tenant ? Find(KeyOf(kTruth, tenant.value, 0, 0)) : nullptr;
    if (c == nullptr || !(c->count > 0)) return 1;
    constexpr double kPriorFlows = 16;
    return std::clamp((c->sum + kPriorFlows * c->predicted) / ((c->count + kPriorFlows) * c->predicted), 1.0 / 16,
                      16.0);
  }
  void ObserveTruth(TenantId tenant, double predicted, double actual) {
    if (!tenant || !(predicted > 0)) return;
    Cell& c = Touch(KeyOf(kTruth, tenant.value, 0, 0));
    c.Add(1, actual);
    c.predicted += Rounded((predicted - c.predicted) / c.count);
  }

  // All that was learnt, as words that Load takes on any machine; kCells is of their format.
  std::vector<std::uint64_t> Save() const {
    std::vector<std::uint64_t> words = {kFormat};
    const auto put = [&words](const Cell& c) {
      for (const double x : {c.count, c.sum, c.predicted}) words.push_back(std::bit_cast<std::uint64_t>(x));
    };
    put(all_);
    for (const Cell& c : cells_) words.push_back(c.key), put(c);
    return words;
  }
  // False, and nothing has changed, where they are no such words.
  bool Load(std::span<const std::uint64_t> words) {
    if (words.size() != 4 + 4 * kCells || words[0] != kFormat) return false;
    const auto take = [&words](std::size_t at) {
      return Cell{.count = std::bit_cast<double>(words[at]),
                  .sum = std::bit_cast<double>(words[at + 1]),
                  .predicted = std::bit_cast<double>(words[at + 2])};
    };
    const auto sane = [](const Cell& c) {
      return c.count >= 0 && c.count <= kWindow && c.sum >= 0 && c.sum <= 1e18 && c.predicted >= 0 &&
             c.predicted <= 1e18;
    };
    std::vector<Cell> cells(kCells);
    const Cell all = take(1);
    bool good = sane(all);
    for (std::size_t i = 0; i < kCells; ++i) {
      cells[i] = take(5 + 4 * i);
      cells[i].key = words[4 + 4 * i];
      good = good && sane(cells[i]);
    }
    if (!good) return false;
    all_ = all, cells_ = std::move(cells);
    return true;
  }

 private:
  static constexpr std::uint64_t kFormat = 0x74616b7473656e01u;

  enum Kind : std::uint64_t { kOctave = 1, kClass, kClassOctave, kTenant, kLeft, kLeftWide, kTruth };

  struct Cell {
    std::uint64_t key = 0;
    double count = 0, sum = 0;
    double predicted = 0;  // mean, of kTruth

    void Add(double n, double x) {
      if (count >= kWindow) count /= 2, sum /= 2;
      count += n, sum += x;
    }
  };

  static double Drawn(const Cell& cell, double to, double prior) {
    return (cell.sum + Rounded(prior * to)) / (cell.count + prior);
  }
  double Drawn(std::uint64_t key, double to, double prior = kPrior) const {
    const Cell* c = Find(key);
    return c == nullptr ? to : Drawn(*c, to, prior);
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
      const Cell& c = cells_[(key + i) % kCells];
      if (c.key == key) return &c;
    }
    return nullptr;
  }
  Cell& Touch(std::uint64_t key) {
    Cell* lightest = nullptr;
    for (std::size_t i = 0; i < kProbes; ++i) {
      Cell& c = cells_[(key + i) % kCells];
      if (c.key == key) return c;
      if (lightest == nullptr || c.count < lightest->count) lightest = &c;
    }
    *lightest = {};
    lightest->key = key;
    return *lightest;
  }

  Cell all_ = {};
  std::vector<Cell> cells_;
};

}  // namespace takt

#endif  // TAKT_POLICY_SEEN_LENGTHS_H_
