// A host's own block manager: a KvOracle that defers frees, refuses at random, and checks its arguments.
#ifndef TAKT_TESTS_FIRE_HOST_KV_H_
#define TAKT_TESTS_FIRE_HOST_KV_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dice.h"
#include "ids.h"
#include "memory.h"
#include "takt/kv/kv_oracle.h"

namespace takt::fire {

class HostKv final : public KvOracle {
 public:
  HostKv(Blocks total, Tokens block_tokens, Ids ids)
      : ids_(ids), most_(total.value), total_(most_), free_(most_), block_tokens_(block_tokens) {}

  // Sets the probabilities of refusal from the action's bits. `all`: refuses every request.
  void Behave(double refuse, double defer, bool all, std::uint64_t bits) {
    refuse_ = refuse;
    refuse_all_ = all;
    asked_ = 0;
    defer_ = defer;
    dice_ = Dice(bits ^ 0xfeedu);
    refused_.clear();
  }

  // Removes some free blocks, or restores blocks that were removed earlier.
  void Resize(std::uint64_t bits) {
    Dice dice(bits ^ 0x5e512eu);
    const std::int32_t change = dice.Chance(0.5) ? dice.Int(-free_, 0) : most_ - total_;
    total_ += change;
    free_ += change;
  }

  void FreePending() {
    free_ += pending_;
    pending_ = 0;
  }

  std::int32_t held(RequestId id) const {
    const std::uint64_t name = ids_.NameOf(id);
    return name < held_.size() ? held_[name] : 0;
  }
  bool refused(RequestId id) const {
    for (RequestId r : refused_) {
      if (r == id) return true;
    }
    return false;
  }
  bool refuses() const { return !refused_.empty(); }  // a request, in this plan
  int asked() const { return asked_; }  // number of questions, in this plan
  const std::string& fault() const { return fault_; }

  Tokens block_tokens() const override { return block_tokens_; }
  Blocks total_blocks() const { return {total_}; }
  Blocks free_blocks() const { return {free_}; }
  Blocks pending_blocks() const { return {pending_}; }
  KvSnapshot Snapshot() const override { return {total_blocks(), free_blocks(), pending_blocks()}; }

  // Returns an arbitrary answer that stays the same for each request.
  static std::int32_t Cached(const Request& r) {
    switch (Mix64(r.id.value) % 6) {
      case 0: return r.prompt_tokens.value / 2;
      case 1: return r.prompt_tokens.value;
      case 2: return INT32_MAX;
      case 3: return -5;
      default: return 0;
    }
  }
  void CachedTokens(std::span<KvHit> hits) override {
    if (hits.empty()) Fault("asks about no request", {});
    for (KvHit& hit : hits) hit.tokens = {Cached(*hit.request)};
  }

  void Reserve(StepId, std::span<KvReservation> wishes) override {
    const OfTheHost memory;
    if (wishes.empty()) Fault("reserves no blocks", {});
    ++asked_;
    std::int64_t together = 0;
    for (const KvReservation& wish : wishes) together += BlocksOf(wish);
    if (together > free_) Fault("the allocations do not fit together", wishes.front().request);
    for (KvReservation& wish : wishes) {
      const std::int32_t blocks = BlocksOf(wish);
      if (wish.granted) Fault("an allocation is granted before the answer", wish.request);
      wish.granted = blocks <= free_ && !refuse_all_ && !(refuse_ > 0 && dice_.Chance(refuse_));
      if (wish.granted) {
        Hold(wish.request) += blocks;
        free_ -= blocks;
      } else {
        refused_.push_back(wish.request);
      }
    }
  }

  Blocks Release(RequestId request, KvAction) override {
    const OfTheHost memory;
    const std::int32_t blocks = Hold(request);
    if (blocks == 0) Fault("releases blocks that are not held", request);
    Hold(request) = 0;
    const bool later = defer_ > 0 && dice_.Chance(defer_);
    (later ? pending_ : free_) += blocks;
    return {later ? 0 : blocks};
  }

 private:
  std::int32_t& Hold(RequestId id) {
    const std::uint64_t name = ids_.NameOf(id);
    if (name >= held_.size()) held_.resize(name + 64);
    return held_[name];
  }

  std::int32_t BlocksOf(const KvReservation& wish) {
    const std::int32_t tokens = wish.want.value - wish.have.value;
    if (tokens < 0 || tokens % block_tokens_.value != 0) Fault("an allocation is not in whole blocks", wish.request);
    return tokens / block_tokens_.value;
  }

  void Fault(const char* text, RequestId id) {
    if (fault_.empty()) fault_ = "oracle: " + std::string(text) + ", request " + std::to_string(id.value);
  }

  Ids ids_;
  std::int32_t most_, total_, free_, pending_ = 0;
  Tokens block_tokens_;
  std::vector<std::int32_t> held_;  // by name
  std::vector<RequestId> refused_;  // in this plan
  double refuse_ = 0, defer_ = 0;
  bool refuse_all_ = false;
  int asked_ = 0;
  Dice dice_{0};
  std::string fault_;
};

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_HOST_KV_H_
