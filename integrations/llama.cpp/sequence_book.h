// Tracks which sequence holds which cells of libllama's unified KV cache. Each request with KV has a sequence of the
// context. When a request ends, its sequence stays idle, and a later request with the same prefix copies it. Evicted
// idle sequences are saved in host memory, and loaded for prompts with the same prefix. This file has no arithmetic and
// does not use libllama: an interface performs the operations.
#ifndef TAKT_INTEGRATIONS_LLAMA_CPP_SEQUENCE_BOOK_H_
#define TAKT_INTEGRATIONS_LLAMA_CPP_SEQUENCE_BOOK_H_

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
  // Afterwards `to`, which must be empty, shares the cells of the first `tokens` positions of `from`.
  virtual void Copy(std::int32_t from, std::int32_t to, std::int32_t tokens) = 0;
  // Removes the positions from `from` on.
  virtual void Remove(std::int32_t sequence, std::int32_t from) = 0;
  // Copies a sequence to host memory under this number. Returns false on failure.
  virtual bool Save(std::int32_t sequence, std::uint64_t as) = 0;
  // Loads a saved sequence into an empty one; enough cells must be free. Returns false on failure; the sequence is
  // still empty then.
  virtual bool Load(std::uint64_t saved, std::int32_t sequence) = 0;
  virtual void Drop(std::uint64_t saved) = 0;
};

struct BookOptions {
  std::int32_t cells = 0;  // cells of the cache
  std::int32_t sequences = 0;  // sequences of the context
  // Maximum sequences with cells, including idle ones, unless more are live: for every token, the library scans all
  // cells up to the last used one.
  std::int32_t lanes = 0;
  bool prefix_cache = false;
  std::int32_t saved_tokens = 0;  // maximum tokens in host memory; 0: evicted sequences are lost
  std::int32_t head_tokens = 16;  // leading tokens that identify a saved sequence; shorter prefixes are not found
};

// The scheduler's oracle, with blocks of one token. A shared cell counts once. Cells held only by idle sequences are
// free: the least recently used sequences are evicted, each from its end.
class SequenceBook final : public takt::KvOracle {
 public:
  // `cache` must outlive this.
  SequenceBook(Sequences& cache, const BookOptions& options);

  // ---- for the scheduler ----
  takt::Tokens block_tokens() const override { return {1}; }
  takt::KvSnapshot Snapshot() const override;
  void CachedTokens(std::span<takt::KvHit> hits) override;
  void Reserve(takt::StepId step, std::span<takt::KvReservation> wishes) override;
  takt::Blocks Release(takt::RequestId request, takt::KvAction action) override;

  // ---- for the host ----
  void Arrive(takt::RequestId request, std::span<const std::int32_t> prompt);
  void Forget(takt::RequestId request);

  // Returns the sequence of a request that holds cells; -1: none.
  std::int32_t sequence(takt::RequestId request) const;
  // Returns the tokens whose keys and values are in the cache.
  std::span<const std::int32_t> tokens(takt::RequestId request) const;
  // Records that the leading `computed` tokens of this context are in the cache.
  void Publish(takt::RequestId request, std::span<const std::int32_t> context, std::size_t computed);
  // Records that the KV of a request is in host memory, or lost there. Meanwhile it finds no prefix.
  void SetAway(takt::RequestId request, bool away);
  void DropIdle();  // saved sequences stay

  std::int64_t reused_tokens() const { return reused_tokens_; }
  std::int64_t evicted_tokens() const { return evicted_tokens_; }
  std::int32_t idle_sequences() const;
  std::int64_t saved_tokens() const { return saved_tokens_; }

  // Recounts all holders, for tests. Returns null if the counts agree.
  const char* Inconsistency() const;

 private:
  static constexpr std::int32_t kNone = -1;

  struct Cell {
    std::int32_t holders = 0;  // sequences that hold the cell
    std::int32_t live = 0;  // of these: held by a request, or about to be
  };

  struct Sequence {
    bool used = false;
    takt::RequestId owner = {};  // none: idle, if used
    std::vector<std::int32_t> tokens;  // tokens in the cache
    std::vector<std::uint32_t> cells;  // at least as many; the rest is reserved
    std::uint64_t touched = 0;
    std::int32_t pins = 0;  // wishes of this plan that will copy its prefix
  };

  // An evicted idle sequence in host memory.
  struct Saved {
    std::uint64_t number = 0;
    std::vector<std::int32_t> tokens;
    std::uint64_t touched = 0;
    std::int32_t pins = 0;
  };

  struct Holding {
    std::vector<std::int32_t> prompt;
    std::int32_t sequence = kNone;
    // Source of the promise of CachedTokens: a sequence, or the number of a saved one.
    std::int32_t donor = kNone;
    std::uint64_t saved = 0;  // 0: the source is a sequence
    std::uint64_t head = 0;  // hash of the prompt's head
    std::int32_t promised = 0;
    bool away = false;
  };

  Sequence& At(std::int32_t sequence) { return sequences_[static_cast<std::size_t>(sequence)]; }
  std::int32_t Unused() const { return options_.cells - live_cells_; }
  std::int32_t Promise(takt::RequestId request, std::int32_t most);
  std::span<const std::int32_t> Promising(const Holding& holding) const;
  bool Stands(const Holding& holding) const;
  void Pin(const Holding& holding, std::int32_t by);
  bool Grant(takt::RequestId request, Holding& holding, std::int32_t want);
  bool LoadSaved(Holding& holding, std::int32_t sequence);
  std::int32_t TakeSequence(const Holding& holding);
  // A shelf holds sequences with the same head, a hash of head_tokens tokens; 0: fewer tokens.
  using Shelf = std::vector<Saved>;
  std::uint64_t Head(std::span<const std::int32_t> tokens) const;
  Saved* FindSaved(const Holding& holding);
  const Saved* FindSaved(const Holding& holding) const { return const_cast<SequenceBook*>(this)->FindSaved(holding); }
  void Save(std::int32_t sequence);
  void MakeRoomToSave(std::size_t tokens);
  void DropSaved(std::uint64_t head, std::size_t at);
  void Evict(std::int32_t sequence);
  void Live(std::uint32_t cell, std::int32_t by);
  void Trim(std::int32_t sequence, std::size_t cells);
  void MakeRoom(std::size_t cells);
  template <class F>
  std::int32_t LeastRecentlyUsed(F&& may_go) const;
  void LetGo(std::int32_t sequence, bool keep);
  void KeepToLanes();

  Sequences& cache_;
  BookOptions options_;
  std::vector<Cell> cells_;
  std::vector<std::uint32_t> free_;
  std::vector<Sequence> sequences_;
  std::unordered_map<std::uint64_t, Shelf> saved_;  // by Head
  std::unordered_map<takt::RequestId, Holding> holdings_;
  std::int32_t live_cells_ = 0;
  std::uint64_t clock_ = 0;
  std::uint64_t last_saved_ = 0;
  std::int64_t reused_tokens_ = 0, evicted_tokens_ = 0, saved_tokens_ = 0;
};

}  // namespace llama_host

#endif  // TAKT_INTEGRATIONS_LLAMA_CPP_SEQUENCE_BOOK_H_
