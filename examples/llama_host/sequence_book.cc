#include "sequence_book.h"

#include <algorithm>
#include <numeric>

#include "takt/config.h"

namespace llama_host {

SequenceBook::SequenceBook(Sequences& cache, std::int32_t cells, std::int32_t sequences, bool prefix_cache,
                           std::int32_t idle_cells)
    : cache_(cache),
      total_(cells),
      prefix_cache_(prefix_cache),
      idle_cells_(idle_cells),
      cells_(static_cast<std::size_t>(cells)),
      free_(cells_.size()),
      sequences_(static_cast<std::size_t>(sequences)) {
  std::iota(free_.rbegin(), free_.rend(), 0u);
}

// ---- cells ----------------------------------------------------------------------------------------------------------

void SequenceBook::Live(std::uint32_t cell, std::int32_t by) {
  Cell& c = cells_[cell];
  live_cells_ -= c.live > 0 ? 1 : 0;
  c.live += by;
  live_cells_ += c.live > 0 ? 1 : 0;
}

// What a sequence holds beyond so many cells goes.
void SequenceBook::Trim(std::int32_t sequence, std::size_t cells) {
  Sequence& s = At(sequence);
  const bool live = static_cast<bool>(s.owner);
  while (s.cells.size() > cells) {
    const std::uint32_t cell = s.cells.back();
    s.cells.pop_back();
    if (live) Live(cell, -1);
    TAKT_ASSERT(cells_[cell].holders > 0);
    if (--cells_[cell].holders == 0) free_.push_back(cell);
  }
  if (s.tokens.size() <= cells) return;
  s.tokens.resize(cells);
  cache_.Remove(sequence, static_cast<std::int32_t>(cells));
}

// An idle sequence; -1: none.
template <class F>
std::int32_t SequenceBook::LeastRecentlyUsed(F&& may_go) const {
  std::int32_t best = kNone;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const Sequence& s = sequences_[i];
    if (!s.used || s.owner || !may_go(s)) continue;
    if (best == kNone || s.touched < sequences_[static_cast<std::size_t>(best)].touched) {
      best = static_cast<std::int32_t>(i);
    }
  }
  return best;
}

// So many free cells. There must be as many that no request holds. Who holds a cell of a sequence holds all before it,
// too: so those that living requests share, or are about to, lie in front.
void SequenceBook::MakeRoom(std::size_t cells) {
  while (free_.size() < cells) {
    const std::int32_t oldest =
        LeastRecentlyUsed([this](const Sequence& s) { return cells_[s.cells.back()].live == 0; });
    TAKT_ASSERT(oldest != kNone);
    Sequence& s = At(oldest);
    std::size_t keep = s.cells.size(), then = free_.size();
    for (; keep > 0 && then < cells && cells_[s.cells[keep - 1]].live == 0; --keep) {
      then += cells_[s.cells[keep - 1]].holders == 1 ? 1u : 0u;
    }
    evicted_tokens_ += static_cast<std::int64_t>(s.cells.size() - keep);
    Trim(oldest, keep);
    if (s.cells.empty()) s = {};
  }
}

// A request's sequence is idle from now on, or empty.
void SequenceBook::LetGo(std::int32_t sequence, bool keep) {
  Sequence& s = At(sequence);
  Trim(sequence, keep ? s.tokens.size() : 0);
  if (s.cells.empty()) {
    s = {};
    return;
  }
  for (const std::uint32_t cell : s.cells) Live(cell, -1);
  s.owner = {};
  s.touched = ++clock_;
  MakeRoom(static_cast<std::size_t>(std::max(0, Unused() - idle_cells_)));
}

// ---- the scheduler's questions --------------------------------------------------------------------------------------

takt::KvSnapshot SequenceBook::Snapshot() const { return {{total_}, {Unused()}, {0}}; }

void SequenceBook::CachedTokens(std::span<takt::KvHit> hits) {
  for (takt::KvHit& hit : hits) hit.tokens = {Promise(hit.request->id, hit.request->prompt_tokens.value - 1)};
}

// The longest beginning that any sequence shares with the prompt, but for the last token, which is computed to sample
// from.
std::int32_t SequenceBook::Promise(takt::RequestId request, std::int32_t most) {
  Holding& holding = holdings_[request];
  holding.donor = kNone, holding.promised = 0;
  if (!prefix_cache_ || holding.away || holding.sequence != kNone) return 0;
  const auto prompt = std::span(holding.prompt).first(std::min(holding.prompt.size(), static_cast<std::size_t>(most)));
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const auto& tokens = sequences_[i].tokens;
    const auto same = static_cast<std::int32_t>(std::ranges::mismatch(prompt, tokens).in1 - prompt.begin());
    if (same > holding.promised) holding.promised = same, holding.donor = static_cast<std::int32_t>(i);
  }
  return holding.promised;
}

// What was promised is there still.
bool SequenceBook::Stands(const Holding& holding) const {
  if (holding.promised == 0) return true;
  const auto& tokens = sequences_[static_cast<std::size_t>(holding.donor)].tokens;
  const auto promised = std::span(holding.prompt).first(static_cast<std::size_t>(holding.promised));
  return tokens.size() >= promised.size() && std::ranges::equal(promised, std::span(tokens).first(promised.size()));
}

void SequenceBook::Pin(const Holding& holding) {
  Sequence& donor = At(holding.donor);
  ++donor.pins;
  for (std::int32_t i = 0; i < holding.promised; ++i) Live(donor.cells[static_cast<std::size_t>(i)], +1);
}

void SequenceBook::Unpin(const Holding& holding) {
  Sequence& donor = At(holding.donor);
  --donor.pins;
  for (std::int32_t i = 0; i < holding.promised; ++i) Live(donor.cells[static_cast<std::size_t>(i)], -1);
}

void SequenceBook::Reserve(takt::StepId, std::span<takt::KvReservation> wishes) {
  // What was promised in this plan is pinned first, so that no other wish of it evicts it.
  for (const takt::KvReservation& wish : wishes) {
    Holding& holding = holdings_[wish.request];
    if (holding.sequence != kNone || holding.away) holding.promised = 0;
    if (!Stands(holding)) holding.promised = kNone;
    if (holding.promised > 0) Pin(holding);
  }
  for (takt::KvReservation& wish : wishes) {
    Holding& holding = holdings_[wish.request];
    // Where a promise does not stand any more, the request is asked about again.
    wish.granted = holding.promised != kNone && Grant(wish.request, holding, wish.want.value);
    if (!wish.granted && holding.promised > 0) Unpin(holding);
    holding.promised = 0;
  }
}

bool SequenceBook::Grant(takt::RequestId request, Holding& holding, std::int32_t want) {
  const bool fresh = holding.sequence == kNone;
  const std::size_t held = fresh ? static_cast<std::size_t>(holding.promised) : At(holding.sequence).cells.size();
  const std::size_t more = static_cast<std::size_t>(std::max(want, 0)) - std::min(held, static_cast<std::size_t>(want));
  if (more > static_cast<std::size_t>(Unused())) return false;
  if (fresh) {
    const std::int32_t sequence = TakeSequence(holding);
    if (sequence == kNone) return false;
    Sequence& s = At(sequence);
    s.used = true, s.owner = request;
    holding.sequence = sequence;
    if (holding.promised > 0) {  // its cells are living by the pin, which is the sequence's from here on
      Sequence& donor = At(holding.donor);
      --donor.pins;
      donor.touched = ++clock_;
      reused_tokens_ += holding.promised;
      if (sequence != holding.donor) {
        s.tokens.assign(donor.tokens.begin(), donor.tokens.begin() + holding.promised);
        s.cells.assign(donor.cells.begin(), donor.cells.begin() + holding.promised);
        for (const std::uint32_t cell : s.cells) ++cells_[cell].holders;
        cache_.Copy(holding.donor, sequence, holding.promised);
      }
    }
  }
  if (more > free_.size()) MakeRoom(more);
  Sequence& s = At(holding.sequence);
  for (std::size_t i = 0; i < more; ++i) {
    const std::uint32_t cell = free_.back();
    free_.pop_back();
    cells_[cell].holders = 1;
    Live(cell, +1);
    s.cells.push_back(cell);
  }
  return true;
}

// One that holds nothing; where all hold something, the idle one that was used least recently gives way, and last of
// all the donor itself, which the request then takes over.
std::int32_t SequenceBook::TakeSequence(const Holding& holding) {
  const auto empty = std::ranges::find(sequences_, false, &Sequence::used);
  if (empty != sequences_.end()) return static_cast<std::int32_t>(empty - sequences_.begin());
  const std::int32_t oldest = LeastRecentlyUsed([](const Sequence& s) { return s.pins == 0; });
  if (oldest != kNone) {
    evicted_tokens_ += static_cast<std::int64_t>(At(oldest).cells.size());
    Trim(oldest, 0);
    At(oldest) = {};
    return oldest;
  }
  if (holding.promised == 0 || At(holding.donor).owner || At(holding.donor).pins > 1) return kNone;
  Trim(holding.donor, static_cast<std::size_t>(holding.promised));
  return holding.donor;
}

takt::Blocks SequenceBook::Release(takt::RequestId request, takt::KvAction action) {
  const auto found = holdings_.find(request);
  if (found == holdings_.end() || found->second.sequence == kNone) return {0};
  const std::int32_t before = Unused();
  LetGo(found->second.sequence, prefix_cache_ && action == takt::KvAction::kDrop);
  found->second.sequence = kNone;
  return {Unused() - before};
}

// ---- the host's -----------------------------------------------------------------------------------------------------

void SequenceBook::Arrive(takt::RequestId request, std::span<const std::int32_t> prompt) {
  holdings_[request].prompt.assign(prompt.begin(), prompt.end());
}

void SequenceBook::Forget(takt::RequestId request) {
  Release(request, takt::KvAction::kDrop);
  holdings_.erase(request);
}

std::int32_t SequenceBook::sequence(takt::RequestId request) const {
  const auto found = holdings_.find(request);
  return found == holdings_.end() ? kNone : found->second.sequence;
}

std::span<const std::int32_t> SequenceBook::tokens(takt::RequestId request) const {
  const std::int32_t of = sequence(request);
  return of == kNone ? std::span<const std::int32_t>() : sequences_[static_cast<std::size_t>(of)].tokens;
}

void SequenceBook::Publish(takt::RequestId request, std::span<const std::int32_t> context, std::size_t computed) {
  const std::int32_t of = sequence(request);
  if (of == kNone) return;
  auto& tokens = At(of).tokens;
  TAKT_ASSERT(computed <= At(of).cells.size());
  for (std::size_t i = tokens.size(); i < computed; ++i) tokens.push_back(context[i]);
}

void SequenceBook::SetAway(takt::RequestId request, bool away) { holdings_[request].away = away; }

void SequenceBook::DropIdle() {
  for (std::int32_t idle; (idle = LeastRecentlyUsed([](const Sequence&) { return true; })) != kNone;) {
    Trim(idle, 0);
    At(idle) = {};
  }
}

std::int32_t SequenceBook::idle_sequences() const {
  return static_cast<std::int32_t>(
      std::ranges::count_if(sequences_, [](const Sequence& s) { return s.used && !s.owner; }));
}

const char* SequenceBook::Inconsistency() const {
  std::vector<Cell> counted(cells_.size());
  std::unordered_map<takt::RequestId, std::int32_t> owners;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const Sequence& s = sequences_[i];
    if (s.tokens.size() > s.cells.size()) return "a sequence has more tokens than cells";
    if (!s.used && !s.cells.empty()) return "a sequence that is not used holds cells";
    if (s.used && !s.owner && s.cells.size() != s.tokens.size()) return "an idle sequence holds more than its tokens";
    for (const std::uint32_t cell : s.cells) {
      ++counted[cell].holders;
      counted[cell].live += s.owner ? 1 : 0;
    }
    if (s.owner && sequence(s.owner) != static_cast<std::int32_t>(i)) return "a sequence's owner holds another one";
  }
  std::size_t unheld = 0;
  std::int32_t live = 0;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    if (counted[i].holders != cells_[i].holders) return "a cell's holders are miscounted";
    if (counted[i].live != cells_[i].live) return "a cell's living holders are miscounted";
    unheld += counted[i].holders == 0 ? 1u : 0u;
    live += counted[i].live > 0 ? 1 : 0;
  }
  if (unheld != free_.size()) return "a cell is lost";
  return live == live_cells_ ? nullptr : "living cells are miscounted";
}

}  // namespace llama_host
