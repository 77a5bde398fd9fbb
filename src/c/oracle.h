// An oracle of KV blocks whose host is written in another language.
#ifndef TAKT_SRC_C_ORACLE_H_
#define TAKT_SRC_C_ORACLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "takt/c/takt.h"
#include "takt/kv/kv_oracle.h"

namespace takt::c {

// Calls the host's functions. Counts below 0 are read as none.
class HostOracle final : public KvOracle {
 public:
  explicit HostOracle(const takt_kv_oracle& host) : host_(host) { hits_.reserve(64); }

  Tokens block_tokens() const override { return {host_.block_tokens}; }

  KvSnapshot Snapshot() const override {
    takt_kv_snapshot now{};
    host_.snapshot(host_.context, &now);
    const auto count = [](std::int32_t blocks) { return Blocks{std::max(blocks, 0)}; };
    return {count(now.total), count(now.free), count(now.pending)};
  }

  void CachedTokens(std::span<KvHit> hits) override {
    if (host_.cached == nullptr) return;
    hits_.clear();
    for (const KvHit& hit : hits) {
      const Request& r = *hit.request;
      takt_kv_hit& to = hits_.emplace_back();
      to = {};
      to.request = r.id.value, to.prompt_tokens = r.prompt_tokens.value;
      if (r.prefix.hashes.empty()) continue;
      to.prefix_hashes = r.prefix.hashes.data(), to.n_prefix_hashes = r.prefix.hashes.size();
      to.prefix_block_tokens = r.prefix.block_tokens.value;
    }
    host_.cached(host_.context, hits_.data(), hits_.size());
    for (std::size_t i = 0; i < hits.size(); ++i) hits[i].tokens = {hits_[i].tokens};
  }

  void Reserve(StepId step, std::span<KvReservation> wishes) override {
    wishes_.resize(wishes.size());
    std::ranges::transform(wishes, wishes_.begin(), [](const KvReservation& wish) {
      return takt_kv_wish{wish.request.value, wish.have.value, wish.want.value, wish.admission ? 1u : 0u, 0, 0, 0};
    });
    host_.reserve(host_.context, step.value, wishes_.data(), wishes_.size());
    for (std::size_t i = 0; i < wishes.size(); ++i) {
      wishes[i].granted = wishes_[i].granted != 0;
      if (wishes_[i].refusal == TAKT_KV_REFUSED_FOR_EVER) wishes[i].refusal = KvRefusal::kForEver;
    }
  }

  Blocks Release(RequestId request, KvAction action) override {
    return {std::max(host_.release(host_.context, request.value, static_cast<std::uint32_t>(action)), 0)};
  }

 private:
  takt_kv_oracle host_;
  std::vector<takt_kv_hit> hits_;
  std::vector<takt_kv_wish> wishes_;
};

}  // namespace takt::c

#endif  // TAKT_SRC_C_ORACLE_H_
