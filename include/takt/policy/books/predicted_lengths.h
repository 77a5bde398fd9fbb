// Corrects the output lengths that hosts predict. The corrections are learnt from true lengths.
#ifndef TAKT_POLICY_BOOKS_PREDICTED_LENGTHS_H_
#define TAKT_POLICY_BOOKS_PREDICTED_LENGTHS_H_

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
#include "takt/base/id.h"
#include "takt/base/id_map.h"
#include "takt/base/rounded.h"
#include "takt/base/slot.h"

namespace takt {

// Estimates E[true | predicted] for the output of a call or of the rest of a workflow. The estimate is the prediction
// times a mean ratio of true to predicted. Each octave of predictions has its own mean.
//
// Each tenant has its own ratios, which other tenants do not change. Requests without a tenant share one set of ratios.
// In an octave with fewer than kNewcomer observations, a tenant also uses the shared set. A new tenant name thus gains
// nothing. A ratio is at most 16 and at least 1/16.
//
// A least-squares line is fitted to the logarithms of the mean ratios. Each ratio is shrunk towards the line, which has
// the weight of kLinePrior observations. Requests with too large a prediction run last, so without the line their
// ratios would never be observed. The line is level or falls, so that a larger prediction never raises the ratio. Short
// requests end first, so early ratios are too small. Corrections apply if their root mean square exceeds kInDoubt
// octaves, and in full from twice that on.
//
// Memory is fixed: kTenants tenants are known, and others count as unnamed. A tenant with more than 1 / (kTenants + 1)
// of the observations stays known (Misra and Gries, Finding repeated elements, 1982). It may be forgotten after
// kMostWeight observations of others. A mean covers about the last kWindow observations. Results are deterministic, and
// only the constructor allocates.
class PredictedLengths {
 public:
  static constexpr std::size_t kTenants = 256, kOctaves = 20;  // maximum tenants; octaves from 1 token on
  static constexpr double kWindow = 256, kPrior = 8, kLinePrior = 32;
  static constexpr double kNewcomer = 8;  // number of observations of an octave from which a tenant uses its own ratio
  static constexpr std::size_t kWords = (1 + kTenants) * (1 + 3 * kOctaves) + 2 * kTenants;  // words of Save

  PredictedLengths() : known_(kTenants), index_(kTenants) {}

  void KeyHashes(std::uint64_t seed) { index_.SetKey(seed); }

  // Returns the mean ratio of true to predicted output for a prediction of `predicted` tokens, in [1/16, 16].
  double Truth(double predicted, TenantId tenant) const {
    const Slot own = index_.Find(tenant.value);
    return (own != kNoSlot && known_[own].ratios.Knows(predicted) ? known_[own].ratios : shared_).Of(predicted);
  }
  void Observe(double predicted, TenantId tenant, double taken) {
    const double ratio = Clamped(taken / std::max(1.0, predicted));
    if (Ratios* own = Keep(tenant)) {
      const bool knew = own->Knows(predicted);
      own->Add(predicted, ratio);
      if (knew) return;
    }
    shared_.Add(predicted, ratio);
  }

  // Returns the learnt state as words that Load accepts on any machine.
  std::vector<std::uint64_t> Save() const {
    std::vector<std::uint64_t> words;
    words.reserve(kWords);
    shared_.Save(words);
    for (std::size_t i = 0; i < kTenants; ++i) {
      words.push_back(known_[i].name.value), words.push_back(weights_[i]);
      known_[i].ratios.Save(words);
    }
    return words;
  }
  // Returns false and changes nothing if the words are invalid.
  bool Load(std::span<const std::uint64_t> words) {
    if (words.size() != kWords) return false;
    Ratios shared;
    if (!shared.Load(words.first(Ratios::kWords))) return false;
    words = words.subspan(Ratios::kWords);
    std::vector<Known> known(kTenants);
    std::array<std::uint32_t, kTenants> weights = {};
    IdMap index(kTenants);
    for (std::size_t i = 0; i < kTenants; ++i, words = words.subspan(2 + Ratios::kWords)) {
      if (words[1] > kMostWeight || !known[i].ratios.Load(words.subspan(2, Ratios::kWords))) return false;
      known[i].name = {words[0]}, weights[i] = static_cast<std::uint32_t>(words[1]);
      if (!known[i].name ? weights[i] > 0 : index.size() < i || !index.Insert(words[0], static_cast<Slot>(i)))
        return false;
    }
    for (const Known& k : known_) index_.Erase(k.name.value);
    for (std::size_t i = 0; i < index.size(); ++i) index_.Insert(known[i].name.value, static_cast<Slot>(i));
    shared_ = shared, known_ = std::move(known), weights_ = weights;
    return true;
  }

 private:
  static constexpr double kMostOctaves = 4;  // largest correction up or down [octaves]
  static constexpr double kInDoubt = 0.4;  // octaves
  static constexpr std::uint64_t kFitEach = 64;  // observations between fits; the first ones are fitted at once
  static constexpr std::uint32_t kMostWeight = 1024;  // maximum weight of a tenant [observations]

  static double Clamped(double ratio) {
    constexpr double kMost = 16;
    static_assert(kMost == 1 << static_cast<int>(kMostOctaves));
    return std::min(std::max(1 / kMost, ratio), kMost);  // std::max(1 / kMost, NaN) is 1 / kMost
  }
  static std::size_t OctaveOf(double tokens) {
    const auto whole = static_cast<std::uint32_t>(std::min(std::max(1.0, tokens), 1e9));
    return std::min(static_cast<std::size_t>(std::bit_width(whole)), kOctaves) - 1;
  }

  struct Mean {
    double count = 0, sum = 0;

    void Add(double x) {
      if (count > kWindow - 1) count /= 2, sum /= 2;
      ++count, sum += x;
    }
    double Drawn(double to, double prior) const { return (sum + Rounded(prior * to)) / (count + prior); }
    bool Sound() const { return count >= 0 && count <= kWindow && sum >= 0 && sum <= Clamped(1e9) * count; }
  };

  class Ratios {
   public:
    static constexpr std::size_t kWords = 1 + 3 * kOctaves;

    bool Knows(double tokens) const { return octaves_[OctaveOf(tokens)].count >= kNewcomer; }
    // Returns the ratio, interpolated in logarithms between the middles of two octaves.
    double Of(double tokens) const {
      if (exact_) return 1;
      const double at = std::clamp(exact::Log2(std::max(1.0, tokens)) - 0.5, 0.0, kOctaves - 1.0), low = std::floor(at);
      const auto k = static_cast<std::size_t>(low);
      const double above = off_[std::min(k + 1, kOctaves - 1)];
      return exact::Exp2(off_[k] + Rounded((above - off_[k]) * (at - low)));
    }
    void Add(double tokens, double ratio) {
      octaves_[OctaveOf(tokens)].Add(ratio);
      if (++observed_ < kFitEach * 4 || observed_ % kFitEach == 0) Fit();
    }

    void Save(std::vector<std::uint64_t>& words) const {
      words.push_back(observed_);
      for (const Mean& m : octaves_) {
        words.push_back(std::bit_cast<std::uint64_t>(m.count)), words.push_back(std::bit_cast<std::uint64_t>(m.sum));
      }
      for (const double off : off_) words.push_back(std::bit_cast<std::uint64_t>(off));
    }
    bool Load(std::span<const std::uint64_t> words) {
      observed_ = words[0];
      double least = -kMostOctaves;
      for (std::size_t k = 0; k < kOctaves; ++k) {
        octaves_[k] = {std::bit_cast<double>(words[1 + 2 * k]), std::bit_cast<double>(words[2 + 2 * k])};
        off_[k] = std::bit_cast<double>(words[1 + 2 * kOctaves + k]);
        if (!octaves_[k].Sound() || !(off_[k] >= least && off_[k] <= kMostOctaves)) return false;
        least = std::max(off_[k] - 1, -kMostOctaves);
      }
      Fitted();
      return true;
    }

   private:
    void Fit() {
      double n = 0, x = 0, y = 0, xx = 0, xy = 0, yy = 0;
      for (std::size_t k = 0; k < kOctaves; ++k) {
        const Mean& m = octaves_[k];
        if (!(m.count > 0)) continue;
        const double at = static_cast<double>(k), log = exact::Log2(Clamped(m.sum / m.count));
        n += m.count, x += Rounded(m.count * at), y += Rounded(m.count * log);
        xx += Rounded(m.count * (at * at)), xy += Rounded(m.count * Rounded(at * log));
        yy += Rounded(m.count * (log * log));
      }
      // The share of the correction that is applied.
      const double share = std::clamp(std::sqrt(yy / n) / kInDoubt - 1, 0.0, 1.0);
      if (!(share > 0)) {
        off_.fill(0);
        return Fitted();
      }
      const double spread = xx - Rounded(x * (x / n));
      const double slope = std::clamp((xy - Rounded(x * (y / n))) / (spread + kPrior), -1.0, 0.0);
      const double drawn = n / (n + kPrior);
      for (std::size_t k = 0; k < kOctaves; ++k) {
        const double line = Rounded((y / n + Rounded(slope * (static_cast<double>(k) - x / n))) * drawn);
        const double ratio = Clamped(octaves_[k].Drawn(Clamped(exact::Exp2(line)), kLinePrior));
        off_[k] = Rounded(share * exact::Log2(ratio));
        if (k > 0) off_[k] = std::max(off_[k], off_[k - 1] - 1);  // keeps the order by predictions
      }
      Fitted();
    }
    void Fitted() {
      exact_ = std::ranges::all_of(off_, [](double off) { return off == 0; });
    }

    std::array<Mean, kOctaves> octaves_ = {};  // mean ratio of each octave of predictions
    std::array<double, kOctaves> off_ = {};  // corrections (log2), shrunk towards the line
    std::uint64_t observed_ = 0;
    bool exact_ = true;  // true: there is no correction
  };

  struct Known {
    TenantId name = {};
    Ratios ratios = {};
  };

  // Returns the tenant's own ratios and raises the tenant's count; null if the tenant has none. If all places are
  // taken, lowers the counts of other tenants.
  Ratios* Keep(TenantId tenant) {
    if (!tenant) return nullptr;
    Slot own = index_.Find(tenant.value);
    if (own == kNoSlot) {
      own = static_cast<Slot>(index_.size());
      if (own == kTenants) {
        own = static_cast<Slot>(std::ranges::find(weights_, 0u) - weights_.begin());
        if (own == kTenants) {
          for (std::uint32_t& weight : weights_) --weight;
          return nullptr;
        }
        index_.Erase(known_[own].name.value);
      }
      index_.Insert(tenant.value, own);
      known_[own] = {tenant};
    }
    weights_[own] = std::min(weights_[own] + 1, kMostWeight);
    return &known_[own].ratios;
  }

  Ratios shared_;  // ratios of unnamed and new tenants
  std::vector<Known> known_;  // valid up to index_.size()
  IdMap index_;  // by tenant
  std::array<std::uint32_t, kTenants> weights_ = {};
};

}  // namespace takt

#endif  // TAKT_POLICY_BOOKS_PREDICTED_LENGTHS_H_
