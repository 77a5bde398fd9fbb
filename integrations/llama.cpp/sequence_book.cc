#include "sequence_book.h"

#include <algorithm>
#include <numeric>

#include "takt/base/random.h"
#include "takt/config.h"

namespace llama_host {

SequenceBook::SequenceBook(Sequences& cache, const BookOptions& options)
    : cache_(cache),
      options_(options),
      cells_(static_cast<std::size_t>(options.cells)),
      free_(cells_.size()),
      sequences_(static_cast<std::size_t>(options.sequences)) {
  std::iota(free_.rbegin(), free_.rend(), 0u);
}

// ---- cells ----------------------------------------------------------------------------------------------------------

void SequenceBook::Live(std::uint32_t cell, std::int32_t by) {
  Cell& c = cells_[cell];
  live_cells_ -= c.live > 0 ? 1 : 0;
  c.live += by;
  live_cells_ += c.live > 0 ? 1 : 0;
}

// Removes the cells of a sequence beyond this number.
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

// Returns the least recently used idle sequence that may go; -1: none.
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

// Frees cells until this many are free. Enough cells must be unused by requests. A sequence that holds a cell also
// holds all earlier ones, so cells shared with live requests are at the front.
void SequenceBook::MakeRoom(std::size_t cells) {
  while (free_.size() < cells) {
    const std::int32_t oldest =
        LeastRecentlyUsed([this](const Sequence& s) { return cells_[s.cells.back()].live == 0; });
    TAKT_ASSERT(oldest != kNone);
    Sequence& s = At(oldest);
    Save(oldest);
    std::size_t keep = s.cells.size(), then = free_.size();
    for (; keep > 0 && then < cells && cells_[s.cells[keep - 1]].live == 0; --keep) {
      then += cells_[s.cells[keep - 1]].holders == 1 ? 1u : 0u;
    }
    evicted_tokens_ += static_cast<std::int64_t>(s.cells.size() - keep);
    Trim(oldest, keep);
    if (s.cells.empty()) s = {};
  }
}

// Evicts an idle sequence.
void SequenceBook::Evict(std::int32_t sequence) {
  Save(sequence);
  evicted_tokens_ += static_cast<std::int64_t>(At(sequence).cells.size());
  Trim(sequence, 0);
  At(sequence) = {};
}

// Evicts idle sequences beyond the lanes, unless they are pinned.
void SequenceBook::KeepToLanes() {
  for (auto used = std::ranges::count(sequences_, true, &Sequence::used); used > options_.lanes; --used) {
    const std::int32_t oldest = LeastRecentlyUsed([](const Sequence& s) { return s.pins == 0; });
    if (oldest == kNone) return;
    Evict(oldest);
  }
}

// Makes a request's sequence idle, or empty.
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
  KeepToLanes();
}

// ---- the host's memory ----------------------------------------------------------------------------------------------

namespace {

bool BeginsWith(std::span<const std::int32_t> tokens, std::span<const std::int32_t> beginning) {
  return tokens.size() >= beginning.size() && std::ranges::equal(tokens.first(beginning.size()), beginning);
}

}  // namespace

std::uint64_t SequenceBook::Head(std::span<const std::int32_t> tokens) const {
  if (std::cmp_less(tokens.size(), options_.head_tokens)) return 0;
  std::uint64_t hash = 1;
  for (const std::int32_t token : tokens.first(static_cast<std::size_t>(options_.head_tokens))) {
    hash = takt::Mix64(hash ^ static_cast<std::uint32_t>(token));
  }
  return std::max<std::uint64_t>(hash, 1);
}

SequenceBook::Saved* SequenceBook::FindSaved(const Holding& holding) {
  const auto shelf = saved_.find(holding.head);
  if (shelf == saved_.end()) return nullptr;
  const auto found = std::ranges::find(shelf->second, holding.saved, &Saved::number);
  return found == shelf->second.end() ? nullptr : &*found;
}

// Removes a saved sequence, and its shelf if it was the last one.
void SequenceBook::DropSaved(std::uint64_t head, std::size_t at) {
  const auto found = saved_.find(head);
  TAKT_ASSERT(found != saved_.end());
  Shelf& shelf = found->second;
  cache_.Drop(shelf[at].number);
  saved_tokens_ -= static_cast<std::int64_t>(shelf[at].tokens.size());
  shelf.erase(shelf.begin() + static_cast<std::ptrdiff_t>(at));
  if (shelf.empty()) saved_.erase(found);
}

// Evicts the least recently used saved sequences until there is room for this many tokens, or only pinned ones are
// left.
void SequenceBook::MakeRoomToSave(std::size_t tokens) {
  while (saved_tokens_ + static_cast<std::int64_t>(tokens) > options_.saved_tokens) {
    const Saved* oldest = nullptr;
    std::size_t at = 0;  // index on its shelf
    for (const auto& [head, shelf] : saved_) {
      for (std::size_t i = 0; i < shelf.size(); ++i) {
        if (shelf[i].pins == 0 && (oldest == nullptr || shelf[i].touched < oldest->touched)) oldest = &shelf[i], at = i;
      }
    }
    if (oldest == nullptr) return;
    DropSaved(Head(oldest->tokens), at);
  }
}

// Saves an idle sequence before its eviction, unless another one contains it.
void SequenceBook::Save(std::int32_t sequence) {
  const Sequence& s = At(sequence);
  const std::uint64_t head = Head(s.tokens);
  if (head == 0 || std::cmp_greater(s.tokens.size(), options_.saved_tokens)) return;
  for (const Sequence& other : sequences_) {
    if (&other != &s && BeginsWith(other.tokens, s.tokens)) return;
  }
  if (const auto found = saved_.find(head); found != saved_.end()) {
    Shelf& shelf = found->second;
    if (std::ranges::any_of(shelf, [&s](const Saved& other) { return BeginsWith(other.tokens, s.tokens); })) return;
    for (std::size_t i = shelf.size(); i-- > 0;) {
      if (shelf[i].pins == 0 && BeginsWith(s.tokens, shelf[i].tokens)) DropSaved(head, i);
    }
  }
  MakeRoomToSave(s.tokens.size());
  const bool fits = saved_tokens_ + static_cast<std::int64_t>(s.tokens.size()) <= options_.saved_tokens;
  if (!fits || !cache_.Save(sequence, ++last_saved_)) return;
  saved_tokens_ += static_cast<std::int64_t>(s.tokens.size());
  saved_[head].push_back({.number = last_saved_, .tokens = s.tokens, .touched = s.touched});
}

// Loads a promised saved sequence into a request's empty sequence. There is room for the whole saved sequence.
bool SequenceBook::LoadSaved(Holding& holding, std::int32_t sequence) {
  Saved* saved = FindSaved(holding);
  if (saved == nullptr) return false;  // its load failed for another request of this plan
  if (!cache_.Load(holding.saved, sequence)) {  // useless for later requests too
    DropSaved(holding.head, static_cast<std::size_t>(saved - saved_[holding.head].data()));
    return false;
  }
  if (std::cmp_less(holding.promised, saved->tokens.size())) cache_.Remove(sequence, holding.promised);
  At(sequence).tokens.assign(saved->tokens.begin(), saved->tokens.begin() + holding.promised);
  saved->touched = ++clock_;
  --saved->pins;
  reused_tokens_ += holding.promised;
  return true;
}

// ---- the scheduler's questions --------------------------------------------------------------------------------------

takt::KvSnapshot SequenceBook::Snapshot() const { return {{options_.cells}, {Unused()}, {0}}; }

void SequenceBook::CachedTokens(std::span<takt::KvHit> hits) {
  for (takt::KvHit& hit : hits) hit.tokens = {Promise(hit.request->id, hit.request->prompt_tokens.value - 1)};
}

// The longest prefix of the prompt in any sequence, live or saved, without the last token, which is computed for
// sampling.
std::int32_t SequenceBook::Promise(takt::RequestId request, std::int32_t most) {
  Holding& holding = holdings_[request];
  holding.donor = kNone, holding.saved = 0, holding.promised = 0;
  if (!options_.prefix_cache || holding.away || holding.sequence != kNone) return 0;
  const auto prompt = std::span(holding.prompt).first(std::min(holding.prompt.size(), static_cast<std::size_t>(most)));
  const auto longer = [&](std::span<const std::int32_t> tokens) {
    const auto same = static_cast<std::int32_t>(std::ranges::mismatch(prompt, tokens).in1 - prompt.begin());
    if (same <= holding.promised) return false;
    holding.promised = same;
    return true;
  };
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    if (longer(sequences_[i].tokens)) holding.donor = static_cast<std::int32_t>(i);
  }
  if (const auto shelf = saved_.find(holding.head); shelf != saved_.end()) {
    for (const Saved& saved : shelf->second) {
      if (longer(saved.tokens)) holding.donor = kNone, holding.saved = saved.number;
    }
  }
  return holding.promised;
}

std::span<const std::int32_t> SequenceBook::Promising(const Holding& holding) const {
  if (holding.saved == 0) return sequences_[static_cast<std::size_t>(holding.donor)].tokens;
  const Saved* saved = FindSaved(holding);
  return saved == nullptr ? std::span<const std::int32_t>() : saved->tokens;
}

// Returns true if the promised tokens are still there.
bool SequenceBook::Stands(const Holding& holding) const {
  if (holding.promised == 0) return true;
  return BeginsWith(Promising(holding), std::span(holding.prompt).first(static_cast<std::size_t>(holding.promised)));
}

// Pins the promised tokens until the plan's wishes are answered; -1 unpins them.
void SequenceBook::Pin(const Holding& holding, std::int32_t by) {
  if (holding.saved != 0) {
    if (Saved* saved = FindSaved(holding)) saved->pins += by;
    return;
  }
  Sequence& donor = At(holding.donor);
  donor.pins += by;
  for (std::int32_t i = 0; i < holding.promised; ++i) Live(donor.cells[static_cast<std::size_t>(i)], by);
}

void SequenceBook::Reserve(takt::StepId, std::span<takt::KvReservation> wishes) {
  // Pin the tokens that this plan was promised first, so that no other request evicts them.
  for (const takt::KvReservation& wish : wishes) {
    Holding& holding = holdings_[wish.request];
    if (holding.sequence != kNone || holding.away) holding.promised = 0;
    if (!Stands(holding)) holding.promised = kNone;
    if (holding.promised > 0) Pin(holding, +1);
  }
  for (takt::KvReservation& wish : wishes) {
    Holding& holding = holdings_[wish.request];
    // If a promise no longer holds, the scheduler queries the request again.
    wish.granted = holding.promised != kNone && Grant(wish.request, holding, wish.want.value);
    if (!wish.granted && holding.promised > 0) Pin(holding, -1);
    holding.promised = 0;
  }
}

bool SequenceBook::Grant(takt::RequestId request, Holding& holding, std::int32_t want) {
  const bool fresh = holding.sequence == kNone;
  const auto shared = static_cast<std::size_t>(holding.saved == 0 ? holding.promised : 0);
  const std::size_t held = fresh ? shared : At(holding.sequence).cells.size();
  const std::size_t more = static_cast<std::size_t>(std::max(want, 0)) - std::min(held, static_cast<std::size_t>(want));
  // A saved sequence is loaded whole, then cut.
  const bool loads = fresh && holding.promised > 0 && holding.saved != 0;
  const std::size_t room = loads ? std::max(more, Promising(holding).size()) : more;
  if (room > static_cast<std::size_t>(Unused())) return false;
  if (fresh) {
    const std::int32_t sequence = TakeSequence(holding);
    if (sequence == kNone) return false;
    Sequence& s = At(sequence);
    s.used = true, s.owner = request;
    holding.sequence = sequence;
    if (!loads && holding.promised > 0) {  // the pin keeps its cells live; the sequence takes them over
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
  if (room > free_.size()) MakeRoom(room);
  Sequence& s = At(holding.sequence);
  if (loads && !LoadSaved(holding, holding.sequence)) {
    s = {};
    holding.sequence = kNone;
    return false;
  }
  for (std::size_t i = 0; i < more; ++i) {
    const std::uint32_t cell = free_.back();
    free_.pop_back();
    cells_[cell].holders = 1;
    Live(cell, +1);
    s.cells.push_back(cell);
  }
  if (fresh) KeepToLanes();
  return true;
}

// Returns an empty sequence. If there is none, it evicts the least recently used idle one. The last choice is the donor
// itself, which the request takes over.
std::int32_t SequenceBook::TakeSequence(const Holding& holding) {
  const auto empty = std::ranges::find(sequences_, false, &Sequence::used);
  if (empty != sequences_.end()) return static_cast<std::int32_t>(empty - sequences_.begin());
  const std::int32_t oldest = LeastRecentlyUsed([](const Sequence& s) { return s.pins == 0; });
  if (oldest != kNone) {
    Evict(oldest);
    return oldest;
  }
  if (holding.promised == 0 || holding.saved != 0 || At(holding.donor).owner || At(holding.donor).pins > 1)
    return kNone;
  Trim(holding.donor, static_cast<std::size_t>(holding.promised));
  return holding.donor;
}

takt::Blocks SequenceBook::Release(takt::RequestId request, takt::KvAction action) {
  const auto found = holdings_.find(request);
  if (found == holdings_.end() || found->second.sequence == kNone) return {0};
  const std::int32_t before = Unused();
  LetGo(found->second.sequence, options_.prefix_cache && action == takt::KvAction::kDrop);
  found->second.sequence = kNone;
  return {Unused() - before};
}

// ---- the host's -----------------------------------------------------------------------------------------------------

void SequenceBook::Arrive(takt::RequestId request, std::span<const std::int32_t> prompt) {
  Holding& holding = holdings_[request];
  holding.prompt.assign(prompt.begin(), prompt.end());
  holding.head = Head(prompt);
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
    if (!s.used && !s.cells.empty()) return "an unused sequence holds cells";
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
  std::int64_t saved = 0;
  for (const auto& [head, shelf] : saved_) {
    if (shelf.empty()) return "a shelf is empty";
    for (const Saved& each : shelf) {
      saved += static_cast<std::int64_t>(each.tokens.size());
      if (each.pins != 0) return "a saved sequence is pinned between plans";
      if (Head(each.tokens) != head) return "a saved sequence is on a wrong shelf";
    }
  }
  if (saved != saved_tokens_ || saved > options_.saved_tokens) return "saved tokens are miscounted, or too many";
  return live == live_cells_ ? nullptr : "living cells are miscounted";
}

}  // namespace llama_host
