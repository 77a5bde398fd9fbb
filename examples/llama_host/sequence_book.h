// Who holds which cells of libllama's unified KV cache. A sequence for each request that has KV, out of those that the
// context was made with; where a request ends, its sequence stays idle, and another request that begins alike copies
// its beginning. No arithmetic here, and no libllama: what is to be done to sequences is told to an interface.
#ifndef TAKT_EXAMPLES_LLAMA_HOST_SEQUENCE_BOOK_H_
#define TAKT_EXAMPLES_LLAMA_HOST_SEQUENCE_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "takt/kv/kv_oracle.h"

namespace llama_host {

// The cache itself. Positions count from 0.
class Sequences {
 public:
  virtual ~Sequences() = default;
  // `to` holds nothing, and shares the cells of the first `tokens` positions of `from` afterwards.
  virtual void Copy(std::int32_t from, std::int32_t to, std::int32_t tokens) = 0;
  // Forgets the positions from `from` on.
  virtual void Remove(std::int32_t sequence, std::int32_t from) = 0;
};

// The scheduler's oracle, with blocks of one token. A cell counts once, however many sequences share it. Cells that
// idle sequences alone hold are free: the least recently used ones give way, each from its end.
class SequenceBook final : public takt::KvOracle {
 public:
  // `cache` must outlive this. Idle sequences hold at most `idle_cells` that no request holds; 0: no prefix is kept of
  // what has ended, only copied from what lives.
  SequenceBook(Sequences& cache, std::int32_t cells, std::int32_t sequences, bool prefix_cache,
               std::int32_t idle_cells);

  // ---- for the scheduler ----
  takt::Tokens block_tokens() const override { return {1}; }
  takt::KvSnapshot Snapshot() const override;
  void CachedTokens(std::span<takt::KvHit> hits) override;
  void Reserve(takt::StepId step, std::span<takt::KvReservation> wishes) override;
  takt::Blocks Release(takt::RequestId request, takt::KvAction action) override;

  // ---- for the host ----
  void Arrive(takt::RequestId request, std::span<const std::int32_t> prompt);
  void Forget(takt::RequestId request);

  // The sequence of a request that holds cells; -1: none.
  std::int32_t sequence(takt::RequestId request) const;
  // Tokens whose keys and values are in the cache.
  std::span<const std::int32_t> tokens(takt::RequestId request) const;
  // The leading `computed` tokens of this context are there.
  void Publish(takt::RequestId request, std::span<const std::int32_t> context, std::size_t computed);
  // Its KV is in the host's memory, or was lost there: no prefix is looked for while it is.
  void SetAway(takt::RequestId request, bool away);
  void DropIdle();

  std::int64_t reused_tokens() const { return reused_tokens_; }
  std::int64_t evicted_tokens() const { return evicted_tokens_; }
  std::int32_t idle_sequences() const;

  // Checks who holds what against the counts; for tests. Null where they agree.
  const char* Inconsistency() const;

 private:
  static constexpr std::int32_t kNone = -1;

  struct Cell {
    std::int32_t holders = 0;  // sequences
    std::int32_t live = 0;  // of them, those that a request holds, or is about to
  };

  struct Sequence {
    bool used = false;
    takt::RequestId owner = {};  // none: idle, where it is used
    std::vector<std::int32_t> tokens;  // that are in the cache
    std::vector<std::uint32_t> cells;  // as many at least: the rest is reserved
    std::uint64_t touched = 0;
    std::int32_t pins = 0;  // wishes of this plan that will copy its beginning
  };

  struct Holding {
    std::vector<std::int32_t> prompt;
    std::int32_t sequence = kNone;
    std::int32_t donor = kNone;  // of the last answer of CachedTokens
    std::int32_t promised = 0;
    bool away = false;
  };

  Sequence& At(std::int32_t sequence) { return sequences_[static_cast<std::size_t>(sequence)]; }
  std::int32_t Unused() const { return total_ - live_cells_; }
  std::int32_t Promise(takt::RequestId request, std::int32_t most);
  bool Stands(const Holding& holding) const;
  void Pin(const Holding& holding);
  void Unpin(const Holding& holding);
  bool Grant(takt::RequestId request, Holding& holding, std::int32_t want);
  std::int32_t TakeSequence(const Holding& holding);
  void Live(std::uint32_t cell, std::int32_t by);
  void Trim(std::int32_t sequence, std::size_t cells);
  void MakeRoom(std::size_t cells);
  template <class F>
  std::int32_t LeastRecentlyUsed(F&& may_go) const;
  void LetGo(std::int32_t sequence, bool keep);

  Sequences& cache_;
  std::int32_t total_;
  bool prefix_cache_;
  std::int32_t idle_cells_;
  std::vector<Cell> cells_;
  std::vector<std::uint32_t> free_;
  std::vector<Sequence> sequences_;
  std::unordered_map<takt::RequestId, Holding> holdings_;
  std::int32_t live_cells_ = 0;
  std::uint64_t clock_ = 0;
  std::int64_t reused_tokens_ = 0, evicted_tokens_ = 0;
};

}  // namespace llama_host

#endif  // TAKT_EXAMPLES_LLAMA_HOST_SEQUENCE_BOOK_H_
