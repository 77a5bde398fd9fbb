// What calls have generated and what their workflows still had to do, by what is seen when a call begins; and by how
// much hosts' own predictions of it come true.
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
// What hosts predict of outputs, of a call or of all that is left of a workflow, is taken for E[true | predicted]:
// predicted times the mean ratio of the true to the predicted, by octave of the prediction, and then by tenant. Ratios
// of octaves are drawn to a line of least squares through the logarithms of all octaves' means, by kLinePrior
// pseudo-observations: raw errors put on top what was predicted too large, which an order by predictions serves last,
// so that its own ratios are never seen. The line falls with size or is level: no prediction counts for more for its
// size. Of those that run at once the shorter ones end first, so that ratios begin too small: where octaves are off by
// no more than kInDoubt in the mean square predictions are taken at their word, from twice that on they are corrected
// in full; and so with tenants. A tenant's ratio begins at that of all who have no name or a new one, and what those
// are off by is not taken for their octaves' fault: lies under names that are thrown away count mostly against such
// names.
//
// Of fixed size: kCells means; a new one takes the place of the lightest of kProbes. A mean forgets beyond kWindow
// observations. Deterministic, and allocates only where it is made. The hashes have no key, since what is told must not
// depend on one: names that strangers choose can push means out, and cost no more time than others.
class SeenLengths {
 public:
  static constexpr std::size_t kCells = 1024, kProbes = 4;
  static constexpr double kWindow = 256, kPrior = 8, kLinePrior = 32, kGoesOn = 0.98;
  static constexpr std::size_t kOctaves = 28;  // from a token
  static constexpr std::size_t kWords = 4 + 3 * kCells + 3 * kOctaves;  // of Save

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

  // Output over what was predicted, on average, where that is so many tokens.
  double Truth(double predicted, TenantId tenant) const {
    return Rounded(OfOctave(OctaveOf(predicted)) * OfTenant(tenant));
  }
  void ObserveTruth(double predicted, TenantId tenant, double taken) {
    const double octave = OctaveOf(predicted), ratio = Believed(taken / std::max(predicted, 1.0));
    const double own = Believed(ratio / OfOctave(octave));
    octaves_[static_cast<std::size_t>(octave)].Add(Believed(ratio / OfTenant(tenant)));
    if (tenant) {
      Cell& known = Touch(KeyOf(kTenantTruth, tenant.value, 0, 0));
      known.Add(own);
      if (known.count > kPrior) return Observed();
    }
    strangers_.Add(own);
    Observed();
  }

  // All that was learnt, as words that Load takes on any machine; kCells is of their format.
  std::vector<std::uint64_t> Save() const {
    std::vector<std::uint64_t> words = {kFormat, observed_};
    const auto put = [&words](const Mean& m) {
      words.push_back(std::bit_cast<std::uint64_t>(m.count));
      words.push_back(std::bit_cast<std::uint64_t>(m.sum));
    };
    put(strangers_);
    for (const Mean& m : octaves_) put(m);
    for (const double off : off_) words.push_back(std::bit_cast<std::uint64_t>(off));
    for (const Cell& c : cells_) words.push_back(c.key), put(c);
    return words;
  }
  // False, and nothing has changed, where they are no such words.
  bool Load(std::span<const std::uint64_t> words) {
    if (words.size() != kWords || words[0] != kFormat) return false;
    const auto mean = [words](std::size_t i) {
      return Mean{std::bit_cast<double>(words[i]), std::bit_cast<double>(words[i + 1])};
    };
    constexpr std::size_t kOff = 4 + 2 * kOctaves, kFirst = kOff + kOctaves;
    for (std::size_t i = 2; i < kOff; i += 2) {
      if (!mean(i).Sound(kMostOff)) return false;
    }
    double least = -kMostOctaves;
    for (std::size_t i = kOff; i < kFirst; ++i) {
      const double off = std::bit_cast<double>(words[i]);
      if (!(off >= least && off <= kMostOctaves)) return false;
      least = std::max(off - 1, -kMostOctaves);
    }
    for (std::size_t i = kFirst; i < kWords; i += 3) {
      const Mean m = mean(i + 1);
      if (!m.Sound(kMostMean) || (m.count > 0 && words[i] % 2 == 0)) return false;  // no key is even
    }
    observed_ = words[1];
    strangers_ = mean(2);
    for (std::size_t i = 0; i < kOctaves; ++i) {
      octaves_[i] = mean(4 + 2 * i);
      off_[i] = std::bit_cast<double>(words[kOff + i]);
    }
    for (std::size_t i = 0; i < kCells; ++i) cells_[i] = {mean(kFirst + 1 + 3 * i), words[kFirst + 3 * i]};
    return true;
  }

 private:
  static constexpr double kMostOctaves = 4, kMostOff = 16;  // that predictions are believed to be, in either direction
  static constexpr double kInDoubt = 0.4;  // octaves by which ratios may be off, since shorter calls end first
  static constexpr std::uint64_t kFitEach = 16;  // observations; each of the first ones
  static constexpr double kMostMean = 1e12;  // that is believed of words
  static constexpr std::uint64_t kFormat = 0x74616b7473656e05u;

  enum Kind : std::uint64_t { kOctave = 1, kClass, kClassOctave, kTenant, kLeft, kLeftWide, kTenantTruth };

  struct Mean {
    double count = 0, sum = 0;

    void Add(double x) {
      if (count > kWindow - 1) count /= 2, sum /= 2;
      ++count, sum += x;
    }
    bool Sound(double most) const { return count >= 0 && count <= kWindow && sum >= 0 && sum <= most * count; }
    double Drawn(double to, double prior) const { return (sum + Rounded(prior * to)) / (count + prior); }
  };
  struct Cell : Mean {
    std::uint64_t key = 0;
  };

  double OfTenant(TenantId tenant) const {
    double ratio = std::max(strangers_.Drawn(1, kPrior), 1.0);
    if (tenant) ratio = std::max(Drawn(KeyOf(kTenantTruth, tenant.value, 0, 0), ratio), 1.0);
    const double off = exact::Log2(Believed(ratio));
    return off > kInDoubt ? exact::Exp2(Rounded(off * Share(off))) : 1;
  }
  static double Believed(double ratio) { return std::clamp(ratio, 1 / kMostOff, kMostOff); }
  // How much of a correction is made where predictions are off by so many octaves.
  static double Share(double octaves) { return std::clamp(octaves / kInDoubt - 1, 0.0, 1.0); }
  // From 0 to the last one.
  static double OctaveOf(double tokens) { return std::min(exact::Log2(std::max(tokens, 1.0)), kOctaves - 0.5); }
  // Evenly from the middle of one octave to that of the next, in logarithms.
  double OfOctave(double octave) const {
    const double at = std::max(octave - 0.5, 0.0), low = std::floor(at);
    const auto k = static_cast<std::size_t>(low);
    const double above = off_[std::min(k + 1, kOctaves - 1)];
    return exact::Exp2(off_[k] + Rounded((above - off_[k]) * (at - low)));
  }
  void Observed() {
    if (++observed_ < kFitEach * kFitEach || observed_ % kFitEach == 0) Fit();
  }
  void Fit() {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0, yy = 0;
    for (std::size_t k = 0; k < kOctaves; ++k) {
      const Mean& m = octaves_[k];
      if (!(m.count > 0)) continue;
      const double at = static_cast<double>(k), log = exact::Log2(Believed(m.sum / m.count));
      n += m.count, x += Rounded(m.count * at), y += Rounded(m.count * log);
      xx += Rounded(m.count * (at * at)), xy += Rounded(m.count * Rounded(at * log));
      yy += Rounded(m.count * (log * log));
    }
    const double share = n > 0 ? Share(std::sqrt(yy / n)) : 0;
    if (!(share > 0)) return off_.fill(0);
    const double spread = xx - Rounded(x * (x / n));
    const double slope = std::clamp((xy - Rounded(x * (y / n))) / (spread + kPrior), -1.0, 0.0);
    const double drawn = n / (n + kPrior);
    for (std::size_t k = 0; k < kOctaves; ++k) {
      const double line = Rounded((y / n + Rounded(slope * (static_cast<double>(k) - x / n))) * drawn);
      const double ratio = Believed(octaves_[k].Drawn(Believed(exact::Exp2(line)), kLinePrior));
      off_[k] = Rounded(share * exact::Log2(ratio));
      if (k > 0) off_[k] = std::max(off_[k], off_[k - 1] - 1);  // the order by predictions stays
    }
  }

  double Drawn(std::uint64_t key, double to, double prior = kPrior) const {
    const Cell* c = Find(key);
    return c == nullptr ? to : c->Drawn(to, prior);
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
  Mean strangers_;  // ratios of those who have no name or a new one
  std::array<Mean, kOctaves> octaves_ = {};  // ratios, by octave of what was predicted
  std::array<double, kOctaves> off_ = {};  // logarithms (base 2) of those, drawn to their line
  std::uint64_t observed_ = 0;
};

}  // namespace takt

#endif  // TAKT_POLICY_SEEN_LENGTHS_H_
