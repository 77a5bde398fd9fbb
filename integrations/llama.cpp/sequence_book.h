// Who holds which cells of libllama's unified KV cache. A sequence for each request that has KV, out of those that the
// context was made with; where a request ends, its sequence stays idle, and another request that begins alike copies
// its beginning. Idle sequences that give way are saved in the host's memory, and loaded where a prompt begins alike.
// No arithmetic here, and no libllama: what is to be done to sequences is told to an interface.
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
  // `to` holds nothing, and shares the cells of the first `tokens` positions of `from` afterwards.
  virtual void Copy(std::int32_t from, std::int32_t to, std::int32_t tokens) = 0;
  // Forgets the positions from `from` on.
  virtual void Remove(std::int32_t sequence, std::int32_t from) = 0;
  // Copies a sequence to the host's memory under this number. False: it is not there.
  virtual bool Save(std::int32_t sequence, std::uint64_t as) = 0;
  // Into a sequence that holds nothing, as many cells being free as were saved. False: the sequence holds nothing
  // still.
  virtual bool Load(std::uint64_t saved, std::int32_t sequence) = 0;
  virtual void Drop(std::uint64_t saved) = 0;
};

struct BookOptions {
  std::int32_t cells = 0;  // of the cache
  std::int32_t sequences = 0;  // that the context was made with
  // Sequences that hold cells, idle ones too, at most, unless more of them are living: the library looks at all cells
  // up to the last one in use for every token, whoever's they are.
  std::int32_t lanes = 0;
  bool prefix_cache = false;
  std::int32_t saved_tokens = 0;  // in the host's memory, at most; 0: what gives way is gone
  std::int32_t head_tokens =
      16;  // what is saved is found by so many leading tokens; shorter beginnings are not looked for
};

// The scheduler's oracle, with blocks of one token. A cell counts once, however many sequences share it. Cells that
// idle sequences alone hold are free: the least recently used ones give way, each from its end.
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

  // The sequence of a request that holds cells; -1: none.
  std::int32_t sequence(takt::RequestId request) const;
  // Tokens whose keys and values are in the cache.
  std::span<const std::int32_t> tokens(takt::RequestId request) const;
  // The leading `computed` tokens of this context are there.
  void Publish(takt::RequestId request, std::span<const std::int32_t> context, std::size_t computed);
  // Its KV is in the host's memory, or was lost there: no prefix is looked for while it is.
  void SetAway(takt::RequestId request, bool away);
  void DropIdle();  // those that are saved stay

  std::int64_t reused_tokens() const { return reused_tokens_; }
  std::int64_t evicted_tokens() const { return evicted_tokens_; }
  std::int32_t idle_sequences() const;
  std::int64_t saved_tokens() const { return saved_tokens_; }

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

  // An idle sequence that gave way, in the host's memory.
  struct Saved {
    std::uint64_t number = 0;
    std::vector<std::int32_t> tokens;
    std::uint64_t touched = 0;
    std::int32_t pins = 0;
  };

  struct Holding {
    std::vector<std::int32_t> prompt;
    std::int32_t sequence = kNone;
    // Of the last answer of CachedTokens: the sequence that has the tokens, or what is saved under a number.
    std::int32_t donor = kNone;
    std::uint64_t saved = 0;  // 0: it is a sequence
    std::uint64_t head = 0;  // of the prompt
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
  // Those that begin alike are one shelf, by a hash of so many tokens; 0: fewer tokens than that.
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
